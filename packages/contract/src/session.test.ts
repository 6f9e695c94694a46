import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { isSameSecret, newStateNonce, signSession, verifySession, type Session } from "./session.ts";
import { golden } from "./testing/golden.ts";

const key = new TextEncoder().encode("0123456789abcdef0123456789abcdef");
const alice: Session = { user: "alice", email: "alice@example.com", expiresAt: 2_000_000_000 };
const now = 1_900_000_000;

test("cookies on the wire are as ever", async () => {
  for (const sample of golden("sessions") as { key: string; session: Session; cookie: string }[]) {
    const secret = new TextEncoder().encode(sample.key);
    assert.equal(await signSession(sample.session, secret), sample.cookie);
    assert.deepEqual(await verifySession(sample.cookie, secret, { now }), sample.session);
  }
});

test("every session survives being signed and verified", async () => {
  const session = fc.record(
    {
      user: fc.string({ unit: "binary", maxLength: 40 }),
      email: fc.emailAddress(),
      expiresAt: fc.integer({ min: now + 1, max: 2 ** 40 }),
    },
    { noNullPrototype: true },
  );
  await fc.assert(
    fc.asyncProperty(session, async (value) => {
      assert.deepEqual(await verifySession(await signSession(value, key), key, { now }), value);
    }),
  );
});

test("no byte of a cookie can be changed", async () => {
  const cookie = await signSession(alice, key);
  for (let index = 0; index < cookie.length; index += 1) {
    const other = cookie[index] === "A" ? "B" : "A";
    const forged = cookie.slice(0, index) + other + cookie.slice(index + 1);
    assert.equal(await verifySession(forged, key, { now }), undefined, `byte ${index}`);
  }
});

test("cookies of another key, shape or time are not taken", async () => {
  const cookie = await signSession(alice, key);
  const other = new TextEncoder().encode("another key");
  assert.equal(await verifySession(cookie, other, { now }), undefined);
  for (const text of [
    "",
    ".",
    cookie.replace(".", ""),
    `${cookie}=`,
    `${cookie}.`,
    ` ${cookie}`,
    `${cookie}${"A".repeat(5_000)}`,
  ])
    assert.equal(await verifySession(text, key, { now }), undefined, text.slice(0, 40));
  assert.equal(
    await verifySession(cookie, key, { now: alice.expiresAt }),
    undefined,
    "expired at its last second",
  );
  assert.deepEqual(await verifySession(cookie, key, { now: alice.expiresAt - 1 }), alice);
  const endless = { ...alice, expiresAt: 0 };
  assert.deepEqual(await verifySession(await signSession(endless, key), key, { now }), endless);
  assert.equal(
    await verifySession(await signSession(endless, key), key, { now, refuseEndless: true }),
    undefined,
  );
});

test("a payload that the key signed but that is no session is not taken", async () => {
  const sign = async (payload: string) => {
    const hmac = await crypto.subtle.importKey("raw", key, { name: "HMAC", hash: "SHA-256" }, false, [
      "sign",
    ]);
    const signature = await crypto.subtle.sign("HMAC", hmac, new TextEncoder().encode(payload));
    return `${payload}.${Buffer.from(signature).toString("base64url")}`;
  };
  const encode = (json: string) => Buffer.from(json).toString("base64url");
  for (const json of [
    "{}",
    "null",
    "[",
    '{"u":1,"e":"","x":0}',
    '{"u":"a","e":"b","x":"9"}',
    '{"u":"a","e":"b","x":1.5}',
  ])
    assert.equal(await verifySession(await sign(encode(json)), key, { now }), undefined, json);
  assert.deepEqual(await verifySession(await sign(encode('{"u":"a","e":"b","x":0}')), key, { now }), {
    user: "a",
    email: "b",
    expiresAt: 0,
  });
});

test("an empty key is an error, not a session for every user", async () => {
  await assert.rejects(signSession(alice, new Uint8Array()), /key of session cookies is empty/);
});

test("nonces are 32 hexadecimal digits and never repeat", () => {
  const nonces = Array.from({ length: 1_000 }, newStateNonce);
  for (const nonce of nonces) assert.match(nonce, /^[0-9a-f]{32}$/);
  assert.equal(new Set(nonces).size, nonces.length);
});

test("secrets are the same only when they are", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (left, right) => {
      assert.equal(isSameSecret(left, right), left === right);
      assert.equal(isSameSecret(left, left), true);
    }),
  );
  assert.equal(isSameSecret("a", "aa"), false);
  assert.equal(isSameSecret("", "a"), false);
  assert.equal(isSameSecret("aa", "a"), false);
});
