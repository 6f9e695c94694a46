/** What one caller can do to others: scripts, tokens that should be dead, lists of what is not theirs, locked-out addresses. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { describe, it } from "node:test";
import { Client, computeDigest, startWorld, type } from "./world.ts";

const basic = (token: string) => ({ authorization: `Basic ${Buffer.from(`u:${token}`).toString("base64")}` });

async function exchange(
  client: Client,
  token: string,
  scope: string,
): Promise<{ status: number; token: string }> {
  const answer = await new Client(client.base).get(
    `/v2/token?scope=${encodeURIComponent(scope)}`,
    basic(token),
  );
  return {
    status: answer.status,
    token: answer.status === 200 ? (answer.json() as { token: string }).token : "",
  };
}

describe("content that others pushed", () => {
  it("is never a page: manifests have manifest types, and browsers may run nothing", async () => {
    await using world = await startWorld();
    const { client } = world;
    const image = await client.pushImage("xss/app", "v1");
    for (const mediaType of [
      "text/html",
      "image/svg+xml",
      "application/xhtml+xml",
      "text/html; charset=utf-8",
    ]) {
      const answer = await client.put("/v2/xss/app/manifests/evil", {
        body: image.bytes,
        headers: { "content-type": mediaType },
      });
      assert.deepEqual([answer.status, answer.code], [400, "MANIFEST_INVALID"], mediaType);
    }
    const own = { ...image.manifest, mediaType: "text/html" };
    const answer = await client.put("/v2/xss/app/manifests/evil", {
      body: JSON.stringify(own),
      headers: { "content-type": "application/json" },
    });
    assert.equal(answer.status, 400);
    for (const path of ["/v2/xss/app/manifests/v1", `/v2/xss/app/blobs/${image.manifest.config.digest}`]) {
      const { headers } = await client.get(path);
      assert.equal(headers.get("x-content-type-options"), "nosniff");
      assert.match(headers.get("content-security-policy") ?? "", /default-src 'none'.*sandbox/);
    }
  });
});

describe("an exchanged token", () => {
  const scope = "repository:t/app:pull,push";

  it("dies with the token it came from, also when it was exchanged again", async () => {
    await using world = await startWorld({ staticToken: "static-secret" });
    const { client } = world;
    const parent = (await client.post("/api/tokens", { body: JSON.stringify({ name: "p" }) })).json() as {
      id: number;
      token: string;
    };
    const first = (await exchange(client, parent.token, scope)).token;
    const second = (await exchange(client, first, scope)).token;
    const ping = async (token: string) => (await new Client(client.base, token).get("/v2/")).status;
    assert.deepEqual([await ping(first), await ping(second)], [200, 200]);
    assert.equal((await client.delete(`/api/tokens/${parent.id}`)).status, 200);
    assert.deepEqual([await ping(first), await ping(second)], [401, 401]);
    assert.equal((await exchange(client, first, scope)).status, 401);
  });

  it("does not come alive again when its parent's number is given to another token", async () => {
    await using world = await startWorld();
    const text = await world.registry.createToken({ name: "old" });
    const { id } = ((await world.client.get("/api/tokens")).json() as { id: number }[]).at(-1) ?? { id: 0 };
    const old = (await exchange(world.client, text, scope)).token;
    await world.client.delete(`/api/tokens/${id}`);
    await world.restart();
    await world.registry.createToken({ name: "new" });
    const tokens = (await world.client.get("/api/tokens")).json() as { id: number }[];
    assert.ok(
      tokens.some((token) => token.id === id),
      "the number is used again",
    );
    assert.equal((await new Client(world.client.base, old).get("/v2/")).status, 401);
  });

  it("dies when the static token is replaced", async () => {
    await using world = await startWorld({ staticToken: "first-secret" });
    const old = (await exchange(world.client, "first-secret", scope)).token;
    await world.restart({ staticToken: "second-secret" });
    assert.equal((await new Client(world.client.base, old).get("/v2/")).status, 401);
  });
});

describe("lists and statistics", () => {
  it("show only what the caller may pull, and nothing to anonymous callers", async () => {
    await using world = await startWorld({ anonymousPull: true });
    for (const name of ["a/one", "b/two", "b/three"]) await world.client.pushImage(name, "v1");
    const scoped = await world.clientWith("repository:b/*:pull", "registry:catalog:*");
    assert.deepEqual((await scoped.get("/v2/_catalog")).json(), { repositories: ["b/three", "b/two"] });
    const page = await scoped.get("/v2/_catalog?n=1");
    assert.deepEqual(page.json(), { repositories: ["b/three"] });
    assert.match(page.headers.get("link") ?? "", /last=b%2Fthree/);
    const anonymous = new Client(world.client.base);
    assert.equal((await anonymous.get("/v2/a/one/manifests/v1")).status, 200);
    for (const path of [
      "/api/stats",
      "/api/repositories",
      "/api/repositories/a/one",
      "/api/repositories/a/one/tags",
    ])
      assert.equal((await anonymous.get(path)).status, 401, path);
    assert.equal((await world.client.get("/api/stats")).status, 200);
  });

  it("name the source of a mount in the challenge", async () => {
    await using world = await startWorld();
    const answer = await new Client(world.client.base).post(
      `/v2/a/app/blobs/uploads/?mount=${computeDigest(Buffer.from("x"))}&from=b/app`,
    );
    assert.equal(answer.status, 401);
    assert.match(
      answer.headers.get("www-authenticate") ?? "",
      /scope="repository:a\/app:pull,push repository:b\/app:pull"/,
    );
  });
});

describe("wrong credentials", () => {
  it("are limited per address, at /v2/token as well, and never lock out a valid token", async () => {
    await using world = await startWorld({ loginFailuresPerMinute: 3, trustedProxies: ["127.0.0.1"] });
    const from = (address: string, authorization?: string) => ({
      "x-forwarded-for": address,
      ...(authorization === undefined ? {} : { authorization }),
    });
    const anonymous = new Client(world.client.base);
    const statuses: number[] = [];
    for (let attempt = 0; attempt < 5; attempt += 1)
      statuses.push((await anonymous.get("/v2/token", { ...from("10.0.0.1"), ...basic("wrong") })).status);
    assert.deepEqual(statuses, [401, 401, 401, 429, 429]);
    const bearer = (token: string) => `Bearer ${token}`;
    assert.equal((await anonymous.get("/v2/", from("10.0.0.1", bearer("wrong")))).status, 429);
    assert.equal(
      (await anonymous.get("/v2/", from("10.0.0.2", bearer("wrong")))).status,
      401,
      "another address",
    );
    assert.equal(
      (await anonymous.get("/v2/", from("10.0.0.1", bearer(world.client.token ?? "")))).status,
      200,
    );
  });
});

describe("a quota", () => {
  it("holds for chunked uploads too, and is answered with 413 and the numbers", async () => {
    await using world = await startWorld({ quotas: [{ pattern: "q/*", maxBytes: 5_000_000 }] });
    const { client } = world;
    const path = await client.begin("q/app");
    const body = ReadableStream.from(
      (function* () {
        for (let sent = 0; sent < 100; sent += 1) yield randomBytes(100_000);
      })(),
    ) as ReadableStream<Uint8Array>;
    const answer = await client.patch(path, { body });
    assert.equal(answer.status, 413);
    assert.match(answer.body.toString(), /q\/app may hold 5000000 bytes/);
    const range = (await client.get(path)).headers.get("range") ?? "";
    assert.ok(Number(range.split("-")[1]) < 5_000_000, range);
  });

  it("checks Content-Range against chunked bodies", async () => {
    await using world = await startWorld();
    const { client } = world;
    const path = await client.begin("range/app");
    const stream = (text: string) => ReadableStream.from([Buffer.from(text)]) as ReadableStream<Uint8Array>;
    const send = (text: string, range: string) =>
      client.patch(path, { body: stream(text), headers: { "content-range": range } });
    assert.equal((await send("abc", "0-4")).status, 400);
    assert.equal((await send("abcdefgh", "0-4")).status, 400);
    assert.equal((await client.get(path)).headers.get("range"), "0-0");
    assert.equal((await send("abcde", "0-4")).status, 202);
    const digest = computeDigest(Buffer.from("abcde"));
    assert.equal((await client.put(`${path}?digest=${digest}`)).status, 201);
    assert.equal((await client.get(`/v2/range/app/blobs/${digest}`)).body.toString(), "abcde");
  });
});

describe("manifests", () => {
  it("of more than 4 MiB are refused, and so are those that are nested or filled beyond measure", async () => {
    await using world = await startWorld();
    const { client } = world;
    const image = await client.pushImage("big/app", "v1");
    const push = (more: object) => client.pushManifest("big/app", "v2", { ...image.manifest, ...more });
    assert.equal((await push({ annotations: { a: "x".repeat(4 * 2 ** 20) } })).status, 413);
    assert.equal((await push({ annotations: { a: "x".repeat(3_900_000) } })).status, 201);
    let nested: unknown = 1;
    for (let depth = 0; depth < 500; depth += 1) nested = [nested];
    assert.match((await push({ nested })).body.toString(), /nested deeper/);
    const many = Array.from({ length: 600_000 }, () => 1);
    assert.match((await push({ many })).body.toString(), /holds more than/);
  });

  it("that are large do not stop other requests", async () => {
    await using world = await startWorld();
    const { client } = world;
    const image = await client.pushImage("busy/app", "v1");
    const layers = Array.from({ length: 15_000 }, (_, index) => ({
      mediaType: type.layer,
      digest: computeDigest(Buffer.from(String(index))),
      size: 1,
      urls: ["https://example.com/elsewhere"],
      annotations: { "org.opencontainers.image.title": `layer ${index}` },
    }));
    let worstMs = 0;
    const pushed = new AbortController();
    const probing = (async () => {
      while (!pushed.signal.aborted) {
        const startedMs = performance.now();
        await client.get("/healthz");
        worstMs = Math.max(worstMs, performance.now() - startedMs);
      }
    })();
    const answer = await client.pushManifest("busy/app", "v2", { ...image.manifest, layers });
    pushed.abort();
    await probing;
    assert.equal(answer.status, 201, answer.body.toString().slice(0, 200));
    assert.ok(worstMs < 2_000, `another request took ${Math.round(worstMs)} ms`);
  });

  it("that refer to another are listed in pages of bounded size", async () => {
    await using world = await startWorld();
    const { client } = world;
    const subject = await client.pushImage("refs/app", "v1");
    const descriptor = { mediaType: type.manifest, digest: subject.digest, size: subject.bytes.length };
    for (let each = 0; each < 12; each += 1) {
      const manifest = {
        ...subject.manifest,
        subject: descriptor,
        annotations: { n: String(each), a: "x".repeat(900_000) },
      };
      assert.equal((await client.pushManifest("refs/app", `r${each}`, manifest)).status, 201);
    }
    const found = new Set<string>();
    let pages = 0;
    for (let path: string | undefined = `/v2/refs/app/referrers/${subject.digest}`; path;) {
      const answer = await client.get(path);
      assert.ok(answer.body.length < 6_000_000, `${answer.body.length} bytes in one page`);
      for (const each of (answer.json() as { manifests: { annotations: { n: string } }[] }).manifests)
        found.add(each.annotations.n);
      path = /<([^>]+)>; rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
      pages += 1;
    }
    assert.equal(found.size, 12);
    assert.ok(pages > 1);
  });
});
