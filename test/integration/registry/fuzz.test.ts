/** Malformed everything, straight onto the socket: clear errors, no crash, no file outside of the root. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { after, before, describe, it } from "node:test";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { computeDigest, startWorld, type as mediaTypes, type Client, type World } from "./world.ts";

const numRuns = count({ small: 300, full: 5_000 });
const seed = testSeed();

/** Sends these very bytes and returns the first line of the answer. */
function exchangeRaw(port: number, bytes: Buffer | string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, "127.0.0.1", () => socket.write(bytes));
    let received = "";
    const done = () => {
      socket.destroy();
      resolve(received.split("\r\n")[0] ?? "");
    };
    socket.setTimeout(20_000, () => reject(new Error(`no answer to ${bytes.toString().slice(0, 200)}`)));
    socket.on("data", (chunk) => {
      received += chunk.toString("latin1");
      if (received.includes("\r\n\r\n")) done();
    });
    socket.on("close", done);
    socket.on("error", done);
  });
}

const readStatus = (line: string) => Number(/^HTTP\/1\.1 (\d{3})/.exec(line)?.[1]);

describe("malformed input", () => {
  let world: World;
  let client: Client;
  let blob: string;
  before(async () => {
    world = await startWorld({ loginFailuresPerMinute: 0 });
    client = world.client;
    blob = await client.pushBlob("fuzz/repository", randomBytes(300_000));
    await client.pushImage("fuzz/repository", "v1");
  });
  after(() => world[Symbol.asyncDispose]());

  /** Everything is inside of the root, in the folders that the layout knows, and the server still works. */
  const assertUnharmed = async () => {
    assert.deepEqual(await readdir(dirname(world.root)), ["data"]);
    const known = [
      "blobs",
      "incoming",
      "links",
      "tagged",
      "lock",
      "manifests",
      "referrers",
      "server",
      "tags",
      "tokens",
      "uploads",
    ];
    const strangers = (await readdir(world.root)).filter((name) => !known.includes(name));
    assert.deepEqual(strangers, []);
    for (const folder of ["links", "manifests", "tags"])
      for (const name of await readdir(join(world.root, folder))) assert.match(name, /^[a-z0-9+._-]+$/);
    assert.equal((await client.head(`/v2/fuzz/repository/blobs/${blob}`)).status, 200);
  };

  const nasty = fc.constantFrom(
    ..."|..|.|%2e%2e|%2e%2e%2f|..%2f..|%00|%ff|%zz|\\..|a|A|_|blobs|uploads|manifests|tags|list|referrers|v2".split(
      "|",
    ),
    ..."sha256:|sha256:../../x|latest|a+b|a%2Fb|~|-|?n=-1|?digest=sha256:x|#|%20|é|token|_catalog".split("|"),
    `sha256:${"0".repeat(64)}`,
    `sha512:${"f".repeat(128)}`,
    "x".repeat(300),
  );
  const methods = fc.constantFrom(
    "GET",
    "HEAD",
    "PUT",
    "POST",
    "PATCH",
    "DELETE",
    "OPTIONS",
    "TRACE",
    "BREW",
  );
  const headers = fc.subarray([
    "Range: bytes=9-1",
    "Range: bytes=99999999999999999999-",
    "Range: bytes=-",
    "Content-Range: 5-1",
    "Content-Range: x",
    "Content-Range: 0-18446744073709551615",
    "Content-Type: ;;;",
    "Authorization: Bearer",
    'X-Forwarded-Host: "><',
    "Accept: */*",
    "Cookie: epoch_session=..; sso_state=%00",
    "Expect: 100-continue",
    "Origin: null",
  ]);

  it("in paths, methods and headers is refused and does no harm", async () => {
    const path = fc.array(nasty, { maxLength: 8 }).map((parts) => parts.join("/"));
    const prefix = fc.constantFrom("/v2/", "/v2/", "/api/", "/dl/", "/", "");
    const body = fc.constantFrom("", "x", "{}", "\u0000".repeat(50));
    await fc.assert(
      fc.asyncProperty(
        fc.tuple(methods, prefix, path, headers, body),
        async ([method, start, rest, extra, content]) => {
          const target = encodeURI(`${start}${rest}`).replaceAll("%25", "%");
          const own = extra.some((header) => header.startsWith("Authorization"))
            ? []
            : [`Authorization: Bearer ${client.token}`];
          const lines = [
            `${method} ${target || "/"} HTTP/1.1`,
            "Host: x",
            "Connection: close",
            ...own,
            ...extra,
          ];
          const text = `${lines.join("\r\n")}\r\nContent-Length: ${Buffer.byteLength(content)}\r\n\r\n${content}`;
          const status = readStatus(await exchangeRaw(world.registry.port, text));
          assert.ok(status >= 100 && status < 500, `${status} for ${text}`);
        },
      ),
      { numRuns, seed },
    );
    await assertUnharmed();
  });

  it("that climbs out of the root finds nothing", async () => {
    const paths = [
      "/v2/../../../../etc/passwd",
      "/../etc/passwd",
      "/v2/%2e%2e/%2e%2e/manifests/v1",
      "/v2/a/../../../b/blobs/uploads/",
    ];
    const more = [
      "/dl/..%2f..%2fetc",
      "/api/repositories/..%2f..%2fx/tags/v1",
      "/v2/fuzz/repository/manifests/..%2f..%2f..%2fserver%2fsecret",
    ];
    for (const path of [...paths, ...more])
      for (const method of ["GET", "PUT", "POST", "DELETE"]) {
        const text = `${method} ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer ${client.token}\r\nContent-Length: 2\r\n\r\n{}`;
        const status = readStatus(await exchangeRaw(world.registry.port, text));
        assert.ok([400, 404, 405].includes(status), `${method} ${path}: ${status}`);
      }
    await assertUnharmed();
  });

  it("in huge headers and request lines is cut off", async () => {
    const port = world.registry.port;
    const head = (line: string) => `GET ${line} HTTP/1.1\r\nHost: x\r\n`;
    assert.equal(
      readStatus(await exchangeRaw(port, `${head("/v2/")}X: ${"y".repeat(100_000)}\r\n\r\n`)),
      431,
    );
    assert.equal(readStatus(await exchangeRaw(port, `${head(`/v2/${"a".repeat(100_000)}`)}\r\n`)), 431);
    const many = Array.from({ length: 5_000 }, (_each, index) => `H${index}: v`).join("\r\n");
    assert.ok([401, 431].includes(readStatus(await exchangeRaw(port, `${head("/v2/")}${many}\r\n\r\n`))));
    for (const bytes of [
      "nonsense\r\n\r\n",
      "GET / HTTP/9.9\r\n\r\n",
      "\u0016\u0003\u0001\u0002\u0000\r\n\r\n",
    ])
      assert.equal(readStatus(await exchangeRaw(port, bytes)), 400);
    const smuggled = `POST /v2/ HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`;
    assert.equal(readStatus(await exchangeRaw(port, smuggled)), 400);
    await assertUnharmed();
  });

  it("in ranges is answered with the whole, a part or 416", async () => {
    const range = fc.oneof(
      fc.string({ maxLength: 30 }).map((text) => text.replaceAll(/[^\u0021-\u007e ]/g, "")),
      fc
        .tuple(fc.integer({ min: -5, max: 400_000 }), fc.integer({ min: -5, max: 400_000 }))
        .map(([a, b]) => `bytes=${a}-${b}`),
    );
    await fc.assert(
      fc.asyncProperty(range, async (text) => {
        const answer = await client.get(`/v2/fuzz/repository/blobs/${blob}`, { range: text });
        assert.ok([200, 206, 416].includes(answer.status), `${answer.status} for ${text}`);
        if (answer.status === 200) assert.equal(computeDigest(answer.body), blob);
        if (answer.status === 206)
          assert.equal(String(answer.body.length), answer.headers.get("content-length"));
      }),
      { numRuns, seed },
    );
  });

  it("in manifests is refused, or stored byte for byte", async () => {
    const valid = await client.newImage("fuzz/repository");
    const junk = fc.anything({ maxDepth: 3, withNullPrototype: false });
    const fields = fc.constantFrom(
      "schemaVersion",
      "mediaType",
      "config",
      "layers",
      "manifests",
      "subject",
      "annotations",
      "artifactType",
    );
    const mutated = fc
      .tuple(fields, junk)
      .map(([field, value]) => JSON.stringify({ ...valid, [field]: value }));
    const body = fc.oneof(
      mutated,
      fc.json(),
      fc.string(),
      fc.uint8Array({ maxLength: 200 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
    );
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        const answer = await client.put("/v2/fuzz/repository/manifests/fuzzed", {
          body: text,
          headers: { "content-type": mediaTypes.manifest },
        });
        assert.ok([201, 400].includes(answer.status), `${answer.status} for ${text}`);
        if (answer.status !== 201) return;
        assert.equal((await client.get("/v2/fuzz/repository/manifests/fuzzed")).body.toString(), text);
        assert.equal((await client.get("/v2/fuzz/repository/tags/list")).status, 200);
      }),
      { numRuns, seed },
    );
    const deep = `${'{"a":'.repeat(100_000)}1${"}".repeat(100_000)}`;
    const answer = await client.put("/v2/fuzz/repository/manifests/deep", {
      body: deep,
      headers: { "content-type": mediaTypes.manifest },
    });
    assert.equal(answer.status, 400);
    assert.equal((await client.get("/api/repositories/fuzz%2Frepository/tags")).status, 200);
    await assertUnharmed();
  });

  it("in API bodies is refused", async () => {
    const body = fc.oneof(
      fc.json(),
      fc.string(),
      fc
        .record({ name: fc.anything(), scopes: fc.anything(), expiresIn: fc.anything() })
        .map((value) => JSON.stringify(value)),
    );
    await fc.assert(
      fc.asyncProperty(body, async (text) => {
        const answer = await client.post("/api/tokens", { body: text });
        assert.ok([201, 400, 403, 413].includes(answer.status), `${answer.status} for ${text}`);
      }),
      { numRuns: Math.min(numRuns, 500), seed },
    );
    assert.equal((await client.post("/api/tokens", { body: "x".repeat(100_000) })).status, 413);
  });
});
