/** Who may do what: closed by default, scoped tokens, the docker token flow, basic authentication, the open modes. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readFile, readdir } from "node:fs/promises";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { openStorage } from "@cocoon/registry/testing";
import { temporaryDirectory } from "@cocoon/testkit";
import { Client, computeDigest, startWorld, type World } from "./world.ts";

const basic = (user: string, password: string) =>
  `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

interface TokenAnswer {
  readonly token: string;
  readonly access_token: string;
  readonly expires_in: number;
  readonly issued_at: string;
}

async function fetchToken(client: Client, query: string, authorization?: string): Promise<TokenAnswer> {
  const headers = authorization === undefined ? {} : { authorization };
  const answer = await new Client(client.base).get(`/v2/token?service=epoch&${query}`, headers);
  assert.equal(answer.status, 200, answer.body.toString());
  return answer.json() as TokenAnswer;
}

describe("a registry that is closed", () => {
  let world: World;
  let anonymous: Client;
  before(async () => {
    world = await startWorld();
    anonymous = new Client(world.registry.url);
    await world.client.pushImage("team/app", "v1");
    await world.client.pushImage("other/app", "v1");
  });
  after(() => world[Symbol.asyncDispose]());

  it("refuses anonymous callers and names where to get a token", async () => {
    for (const [path, scope] of [
      ["/v2/", undefined],
      ["/v2/team/app/manifests/v1", "repository:team/app:pull"],
      ["/v2/_catalog", "registry:catalog:*"],
    ] as const) {
      const answer = await anonymous.get(path);
      assert.equal(answer.status, 401, path);
      assert.equal(answer.code, "UNAUTHORIZED");
      const expected = `Bearer realm="${world.registry.url}/v2/token",service="epoch"${scope ? `,scope="${scope}"` : ""}`;
      assert.equal(answer.headers.get("www-authenticate"), expected);
    }
    const push = await anonymous.post("/v2/team/app/blobs/uploads/");
    assert.match(push.headers.get("www-authenticate") ?? "", /scope="repository:team\/app:pull,push"/);
    for (const path of ["/api/stats", "/api/tokens", "/auth/me", "/dl/team/app"])
      assert.equal((await anonymous.get(path)).status, 401, path);
    assert.equal(
      (await anonymous.post("/api/tokens", { body: JSON.stringify({ name: "mine" }) })).status,
      401,
    );
    assert.equal((await anonymous.get("/v2/token?service=epoch")).status, 401, "no anonymous token either");
  });

  it("answers health to anonymous callers", async () => {
    assert.equal((await anonymous.get("/healthz")).body.toString(), "ok");
    assert.equal((await anonymous.get("/readyz")).status, 200);
  });

  it("writes to the storage at most once in ten seconds, however many callers check readiness", async () => {
    await using directory = await temporaryDirectory();
    const storage = await openStorage({ kind: "filesystem", root: directory.path });
    let writes = 0;
    const put = storage.put.bind(storage);
    storage.put = (key, content) => {
      writes += 1;
      return put(key, content);
    };
    await using checked = await startWorld({ storage: { kind: "given", storage } });
    const [before, startedMs] = [writes, performance.now()];
    const caller = new Client(checked.registry.url);
    for (let round = 0; round < 20; round += 1) {
      const answers = await Promise.all(Array.from({ length: 20 }, () => caller.get("/readyz")));
      for (const { status } of answers) assert.equal(status, 200);
    }
    const allowed = 1 + Math.floor((performance.now() - startedMs) / 10_000);
    assert.ok(writes - before <= allowed, `${writes - before} writes for 400 requests, ${allowed} allowed`);
    assert.ok(writes > before, "readiness includes a write");
  });

  it("names the address a proxy or the operator gives it", async () => {
    const answer = await anonymous.get("/v2/", {
      "x-forwarded-proto": "https",
      "x-forwarded-host": "registry.example:8443, x",
    });
    assert.match(
      answer.headers.get("www-authenticate") ?? "",
      /realm="https:\/\/registry\.example:8443\/v2\/token"/,
    );
    const hostile = await anonymous.get("/v2/", { "x-forwarded-host": 'a",realm="http://evil' });
    assert.doesNotMatch(hostile.headers.get("www-authenticate") ?? "", /evil/);
    await using named = await startWorld({ publicUrl: "https://public.example/" });
    const other = await new Client(named.registry.url).get("/v2/");
    assert.match(other.headers.get("www-authenticate") ?? "", /realm="https:\/\/public\.example\/v2\/token"/);
  });

  it("gives a scoped token exactly its repositories and actions", async () => {
    const reader = await world.clientWith("repository:team/*:pull");
    assert.equal((await reader.get("/v2/")).status, 200);
    assert.equal((await reader.get("/v2/team/app/manifests/v1")).status, 200);
    for (const answer of [
      await reader.get("/v2/other/app/manifests/v1"),
      await reader.post("/v2/team/app/blobs/uploads/"),
      await reader.delete("/v2/team/app/manifests/v1"),
      await reader.get("/v2/_catalog"),
    ]) {
      assert.equal(answer.status, 403);
      assert.equal(answer.code, "DENIED");
    }
    for (const answer of [await reader.get("/api/tokens"), await reader.get("/api/stats")])
      assert.equal(answer.status, 403);
    const writer = await world.clientWith("repository:team/*:pull,push");
    await writer.pushImage("team/new", "v1");
    assert.equal((await writer.delete("/v2/team/new/manifests/v1")).status, 403);
    const remover = await world.clientWith("repository:team/new:delete");
    assert.equal((await remover.delete("/v2/team/new/manifests/v1")).status, 202);
    assert.equal((await remover.get("/v2/team/new/tags/list")).status, 403);
    const lister = await world.clientWith("registry:catalog:*");
    assert.equal((await lister.get("/v2/_catalog")).status, 200);
  });

  it("mounts only from where the caller may pull", async () => {
    const secret = await world.client.pushBlob("secret/store", randomBytes(50));
    const writer = await world.clientWith("repository:team/*:pull,push");
    for (const query of [`mount=${secret}&from=secret/store`, `mount=${secret}`]) {
      const answer = await writer.post(`/v2/team/app/blobs/uploads/?${query}`);
      assert.equal(answer.status, 202, query);
      assert.equal((await writer.head(`/v2/team/app/blobs/${secret}`)).status, 404);
    }
  });

  it("takes a token as a basic password, under any user name", async () => {
    const reader = await world.clientWith("repository:team/*:pull");
    const answer = await anonymous.get("/v2/team/app/tags/list", {
      authorization: basic("any-user", reader.token ?? ""),
    });
    assert.equal(answer.status, 200);
    for (const wrong of [basic("x", "wrong"), "Bearer wrong", "Basic !!!", "Digest x", "Bearer epoch1.e30.x"])
      assert.equal(
        (await anonymous.get("/v2/team/app/tags/list", { authorization: wrong })).status,
        401,
        wrong,
      );
  });

  it("exchanges a token for a short one of the asked scope (docker token flow)", async () => {
    const owner = await world.clientWith("repository:team/*:pull,push");
    const asked = "scope=repository:team/app:pull,push,delete&scope=repository:other/app:pull";
    const answer = await fetchToken(anonymous, asked, basic("me", owner.token ?? ""));
    assert.equal(answer.token, answer.access_token);
    assert.notEqual(answer.token, owner.token);
    assert.ok(answer.expires_in > 0 && !Number.isNaN(Date.parse(answer.issued_at)));
    const short = new Client(anonymous.base, answer.token);
    assert.equal((await short.get("/v2/")).status, 200);
    assert.equal((await short.get("/v2/team/app/tags/list")).status, 200);
    assert.equal((await short.post("/v2/team/app/blobs/uploads/")).status, 202);
    assert.equal((await short.delete("/v2/team/app/manifests/v1")).status, 403, "the owner may not either");
    assert.equal((await short.get("/v2/other/app/tags/list")).status, 403);
    const notAsked = await short.get("/v2/team/else/tags/list");
    assert.equal(notAsked.status, 401, "the owner may: it is worth to ask for a wider one");
    assert.match(notAsked.headers.get("www-authenticate") ?? "", /scope="repository:team\/else:pull"/);
    assert.equal((await short.get("/api/tokens")).status, 403);
  });

  it("exchanges by POST form, and without a scope for a plain login", async () => {
    const owner = await world.clientWith("repository:team/*:pull");
    const form = (fields: Record<string, string>) => ({
      body: new URLSearchParams(fields).toString(),
      headers: { "content-type": "application/x-www-form-urlencoded" },
    });
    for (const fields of [{ password: owner.token ?? "" }, { refresh_token: owner.token ?? "" }]) {
      const answer = await anonymous.post(
        "/v2/token",
        form({ grant_type: "password", scope: "repository:team/app:pull", ...fields }),
      );
      assert.equal(answer.status, 200);
      const short = new Client(anonymous.base, (answer.json() as TokenAnswer).token);
      assert.equal((await short.get("/v2/team/app/tags/list")).status, 200);
    }
    const plain = await fetchToken(
      anonymous,
      "account=me&offline_token=true",
      basic("me", owner.token ?? ""),
    );
    assert.equal((await new Client(anonymous.base, plain.token).get("/v2/")).status, 200);
    const refused = await anonymous.get("/v2/token", { authorization: basic("me", "wrong") });
    assert.equal(refused.status, 401);
    assert.match(refused.body.toString(), /invalid credentials/);
  });

  it("forgets tokens, and what was exchanged for them, when they are deleted or expire", async () => {
    const created = await world.client.post("/api/tokens", { body: JSON.stringify({ name: "short-lived" }) });
    const { id, token } = created.json() as { id: number; token: string };
    const exchanged = await fetchToken(anonymous, "scope=repository:team/app:pull", basic("x", token));
    const [long, short] = [new Client(anonymous.base, token), new Client(anonymous.base, exchanged.token)];
    for (const client of [long, short])
      assert.equal((await client.get("/v2/team/app/tags/list")).status, 200);
    assert.equal((await world.client.delete(`/api/tokens/${id}`)).status, 200);
    for (const client of [long, short])
      assert.equal((await client.get("/v2/team/app/tags/list")).status, 401);
    const brief = await world.registry.createToken({ name: "brief", lifetimeMs: 1 });
    await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal((await new Client(anonymous.base, brief).get("/v2/")).status, 401);
  });

  it("keeps only hashes of tokens, and knows them after a restart", async () => {
    await using own = await startWorld();
    const text = own.client.token ?? "";
    assert.match(text, /^[0-9a-f]{64}$/);
    for (const name of await readdir(join(own.root, "tokens")))
      assert.doesNotMatch(await readFile(join(own.root, "tokens", name), "utf8"), new RegExp(text));
    const exchanged = await fetchToken(own.client, "scope=repository:a:pull,push", basic("x", text));
    await own.restart();
    assert.equal((await own.client.get("/v2/")).status, 200);
    assert.equal(
      (await new Client(own.registry.url, exchanged.token).post("/v2/a/blobs/uploads/")).status,
      202,
    );
  });

  it("does not take a token of another registry", async () => {
    await using other = await startWorld();
    const foreign = await fetchToken(
      other.client,
      "scope=repository:team/app:pull",
      basic("x", other.client.token ?? ""),
    );
    for (const token of [other.client.token ?? "", foreign.token])
      assert.equal((await new Client(anonymous.base, token).get("/v2/")).status, 401);
  });

  it("makes an address with too many wrong credentials wait", async () => {
    await using guarded = await startWorld({ loginFailuresPerMinute: 5 });
    const guesser = new Client(guarded.registry.url, "0".repeat(64));
    const answers = [];
    for (let attempt = 0; attempt < 8; attempt += 1) answers.push(await guesser.get("/v2/"));
    assert.deepEqual(
      answers.map((answer) => answer.status),
      [401, 401, 401, 401, 401, 429, 429, 429],
    );
    assert.equal(answers.at(-1)?.code, "TOOMANYREQUESTS");
    assert.ok(Number(answers.at(-1)?.headers.get("retry-after")) > 0);
  });

  it("limits how fast one caller may ask", async () => {
    await using slow = await startWorld({ requestsPerSecond: 5 });
    const statuses = await Promise.all(
      Array.from({ length: 30 }, async () => (await slow.client.get("/v2/")).status),
    );
    assert.ok(statuses.includes(200) && statuses.includes(429), statuses.join(" "));
  });
});

describe("a registry that is open for pulls", () => {
  it("lets anonymous callers read, and not write", async () => {
    await using world = await startWorld({ anonymousPull: true });
    await world.client.pushImage("team/app", "v1");
    const anonymous = new Client(world.registry.url);
    assert.equal((await anonymous.get("/v2/team/app/manifests/v1")).status, 200);
    assert.equal((await anonymous.get("/v2/_catalog")).status, 200);
    assert.equal(
      (await anonymous.get("/v2/")).status,
      401,
      "docker clients learn here that there is a login",
    );
    assert.equal((await anonymous.post("/v2/team/app/blobs/uploads/")).status, 401);
    assert.equal((await anonymous.delete("/v2/team/app/manifests/v1")).status, 401);
    assert.equal((await anonymous.get("/api/tokens")).status, 401);
    const { token } = await fetchToken(anonymous, "scope=repository:team/app:pull,push");
    const exchanged = new Client(anonymous.base, token);
    assert.equal((await exchanged.get("/v2/team/app/manifests/v1")).status, 200);
    assert.equal((await exchanged.post("/v2/team/app/blobs/uploads/")).status, 401);
  });

  it("speaks as epoch with --epoch-compat: echoed tokens, empty anonymous token, bearer on writes", async () => {
    await using world = await startWorld({ epochCompat: true, staticToken: "static-secret" });
    await world.client.pushImage("team/app", "v1");
    const anonymous = new Client(world.registry.url);
    assert.equal(
      (await anonymous.get("/v2/team/app/manifests/v1", { authorization: "Bearer " })).status,
      200,
    );
    assert.equal((await fetchToken(anonymous, "")).token, "");
    for (const secret of ["static-secret", world.client.token ?? ""]) {
      const answer = await fetchToken(anonymous, "", basic("anyone", secret));
      assert.deepEqual([answer.token, answer.expires_in], [secret, 3600]);
      const content = randomBytes(10);
      const push = await new Client(anonymous.base, secret).put(
        `/v2/team/app/blobs/${computeDigest(content)}`,
        {
          body: content,
        },
      );
      assert.equal(push.status, 201);
    }
    assert.equal((await anonymous.get("/v2/token", { authorization: basic("x", "wrong") })).status, 401);
    assert.equal(
      (await anonymous.get("/v2/nothing/here/tags/list")).status,
      200,
      "an unknown repository has no tags",
    );
    const fromPage = await anonymous.request("/v2/", {
      method: "OPTIONS",
      headers: { origin: "https://page.example" },
    });
    assert.equal(fromPage.status, 204);
    assert.equal(fromPage.headers.get("access-control-allow-origin"), "*");
  });

  it("never lets the static token administer", async () => {
    await using world = await startWorld({ staticToken: "static-secret" });
    const client = new Client(world.registry.url, "static-secret");
    await client.pushImage("team/app", "v1");
    assert.equal((await client.get("/api/tokens")).status, 200, "it may see which tokens there are");
    const body = JSON.stringify({ name: "more", scopes: ["admin"] });
    assert.equal((await client.post("/api/tokens", { body })).status, 403);
    assert.equal((await client.delete("/api/tokens/1")).status, 403);
    assert.equal((await client.post("/api/gc")).status, 403);
    const short = await fetchToken(client, "scope=repository:team/app:pull", basic("x", "static-secret"));
    assert.notEqual(short.token, "static-secret");
    assert.equal((await new Client(client.base, short.token).get("/v2/team/app/tags/list")).status, 200);
  });
});
