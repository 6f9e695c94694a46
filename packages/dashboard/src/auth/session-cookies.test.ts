import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import fc from "fast-check";
import { SessionCookies, type SignedIn } from "./session-cookies.ts";

const key = Buffer.alloc(32, 7);
const now = 1_800_000_000;
const user: SignedIn = { user: "alice", token: "secret-token-of-alice", expiresAt: now + 600 };

function request(cookies: readonly string[]): IncomingMessage {
  return { headers: { cookie: cookies.map((each) => each.split(";")[0]).join("; ") } } as IncomingMessage;
}

test("a user who signed in is read back, until the session ends", async () => {
  const cookies = new SessionCookies({ key, secure: true });
  const written = await cookies.write(user, now);
  assert.deepEqual(await cookies.read(request(written), now), user);
  assert.equal(await cookies.read(request(written), user.expiresAt), undefined);
  assert.equal(
    await new SessionCookies({ key: Buffer.alloc(32, 8), secure: true }).read(request(written), now),
    undefined,
  );
});

test("cookies are for this site, not for scripts, and do not show the token", async () => {
  for (const cookie of await new SessionCookies({ key, secure: true }).write(user, now)) {
    assert.match(cookie, /; Path=\/; Max-Age=600; HttpOnly; SameSite=Strict; Secure$/);
    assert.doesNotMatch(
      Buffer.from(cookie.split(/[=;]/)[1] ?? "", "base64url").toString("latin1"),
      /secret-token/,
    );
  }
});

test("a token longer than one cookie is split", async () => {
  const cookies = new SessionCookies({ key, secure: false });
  const long = { ...user, token: "t".repeat(9_000) };
  const written = await cookies.write(long, now);
  assert.ok(written.length > 3 && written.every((each) => each.length < 4_096));
  assert.deepEqual(await cookies.read(request(written), now), long);
  await assert.rejects(
    cookies.write({ ...user, token: "t".repeat(20_000) }, now),
    /more than cookies can hold/,
  );
});

test("the credential of one session is refused beside the cookie of another", async () => {
  const cookies = new SessionCookies({ key, secure: false });
  const [alice = ""] = await cookies.write(user, now);
  const [, bob = ""] = await cookies.write({ ...user, user: "bob", token: "token-of-bob" }, now);
  assert.equal(await cookies.read(request([alice, bob]), now), undefined);
});

test("any change of a cookie signs the user out", async () => {
  const cookies = new SessionCookies({ key, secure: false });
  const written = await cookies.write(user, now);
  const values = written.map((each) => each.split(";")[0] ?? "");
  await fc.assert(
    fc.asyncProperty(
      fc.nat(values.length - 1),
      fc.nat(),
      fc.integer({ min: 1, max: 61 }),
      async (which, where, by) => {
        const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        const [name = "", value = ""] = (values[which] ?? "").split("=");
        const at = where % value.length;
        const letter = value[at] ?? "A";
        const changed = letters[(letters.indexOf(letter) + by + 62) % 62] ?? "A";
        if (changed === letter) return;
        // The last letter of base64 may carry bits that are not part of the content.
        if (at === value.length - 1) return;
        const tampered = values.with(which, `${name}=${value.slice(0, at)}${changed}${value.slice(at + 1)}`);
        assert.equal(await cookies.read(request(tampered), now), undefined);
      },
    ),
  );
});
