/** What the client does when the registry, the network or a proxy misbehaves. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import { isFault, startHttpServer, type FaultCode } from "@cocoon/core";
import {
  refuse,
  startFakeRegistry,
  type FakeRegistry,
  type MemoryRegistryOptions,
} from "../testing/fake-registry.ts";
import { retag } from "../snapshot/stored-snapshots.ts";
import { toBlobContent } from "./blob-content.ts";
import { fixedCredential } from "./credentials.ts";
import { openRegistry, type RegistryOptions } from "./registry.ts";
import type { Repository } from "./repository.ts";

const retry = { attempts: 4, baseMs: 1, maxMs: 5 };
const code = (wanted: FaultCode) => (error: unknown) => isFault(error, wanted);

interface Setup extends AsyncDisposable {
  readonly server: FakeRegistry;
  readonly repository: Repository;
}

async function setup(
  options: MemoryRegistryOptions = {},
  client: Partial<RegistryOptions> = {},
): Promise<Setup> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startFakeRegistry(options));
  const registry = stack.use(openRegistry({ address: server.url, retry, ...client }));
  return {
    server,
    repository: registry.repository("a/b"),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Answers the first `times` fitting requests by `answer`, the others normally. */
function first(
  times: number,
  fits: (request: IncomingMessage) => boolean,
  answer: (response: ServerResponse, request: IncomingMessage) => void | Promise<void>,
): FakeRegistry["hook"] {
  let left = times;
  return async (request, response) => {
    if (left === 0 || !fits(request)) return false;
    left -= 1;
    await answer(response, request);
    return true;
  };
}

const is = (method: string, path: RegExp) => (request: IncomingMessage) =>
  request.method === method && path.test(request.url ?? "");

describe("connections", () => {
  it("are used again after every method, also after a HEAD", async (t) => {
    const sockets = new Set<unknown>();
    await using world = await setup();
    world.server.hook = (request) => {
      sockets.add(request.socket);
      return false;
    };
    for (let round = 0; round < 3; round += 1) {
      assert.equal(await world.repository.headManifest(`v${round}`, { signal: t.signal }), undefined);
      await world.repository.putBlob(toBlobContent(randomBytes(10)), { signal: t.signal });
    }
    // A connection is free again only after a turn of the event loop, so that two take turns.
    assert.ok(sockets.size <= 2, `${sockets.size} connections`);
  });

  it("to a server that sends a body after a HEAD give no wrong answer", async (t) => {
    const smuggled = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    await using server = await startHttpServer({
      name: "wrong",
      host: "127.0.0.1",
      port: 0,
      drainMs: 0,
      handler: (request, response) => {
        if (request.method !== "HEAD") return response.writeHead(503).end();
        const head = `HTTP/1.1 404 Not Found\r\nConnection: keep-alive\r\nContent-Length: ${smuggled.length}`;
        return request.socket.write(`${head}\r\n\r\n${smuggled}`);
      },
    });
    await using registry = openRegistry({ address: server.url, retry });
    const repository = registry.repository("a/b");
    const { signal } = t;
    await assert.rejects(repository.headManifest("v1", { signal }), code("unavailable"));
    await assert.rejects(repository.getManifest("v1", { signal }), code("unavailable"));
  });
});

describe("absent and could-not-ask", () => {
  for (const [status, wanted] of [
    [500, "unavailable"],
    [502, "unavailable"],
    [503, "unavailable"],
    [401, "unauthorized"],
    [403, "forbidden"],
    [429, "tooManyRequests"],
  ] as const)
    it(`a HEAD answered with ${status} is ${wanted}, not absence`, async ({ signal }) => {
      await using s = await setup();
      s.server.hook = (_request, response) => (response.writeHead(status).end(), true);
      await assert.rejects(s.repository.headManifest("x", { signal }), code(wanted));
      await assert.rejects(s.repository.headBlob(`sha256:${"1".repeat(64)}`, { signal }), code(wanted));
    });

  for (const status of [400, 404])
    it(`a manifest whose blobs the registry lost is damaged, not absent (${status})`, async ({ signal }) => {
      await using s = await setup();
      const manifest = { bytes: Buffer.from("{}"), mediaType: "application/vnd.oci.image.manifest.v1+json" };
      await s.repository.putManifest("x", manifest, { signal });
      s.server.hook = (request, response) => {
        if (request.method === "PUT") refuse(response, status, "MANIFEST_BLOB_UNKNOWN");
        return request.method === "PUT";
      };
      await assert.rejects(s.repository.putManifest("y", manifest, { signal }), code("damaged"));
      await assert.rejects(retag({ repository: s.repository, from: "x", to: "y", signal }), code("damaged"));
    });

  it("a port without a listener is unavailable", async ({ signal }) => {
    await using registry = openRegistry({ address: "127.0.0.1:1", retry });
    await assert.rejects(registry.repository("a").headManifest("x", { signal }), code("unavailable"));
  });

  it("a 404 from something that is no registry says nothing about its content", async ({ signal }) => {
    await using web = await startHttpServer({
      name: "web",
      host: "127.0.0.1",
      port: 0,
      handler: (_request, response) => response.writeHead(404).end("not here"),
    });
    await using registry = openRegistry({ address: web.url, retry });
    const repository = registry.repository("a");
    await assert.rejects(repository.headManifest("x", { signal }), code("unavailable"));
    await assert.rejects(repository.getManifest("x", { signal }), code("unavailable"));
    await assert.rejects(repository.deleteManifest("x", { signal }), code("unavailable"));
    await assert.rejects(Array.fromAsync(repository.tags({ signal })), code("unavailable"));
  });

  it("a 404 without an OCI error body says nothing about the content", async ({ signal }) => {
    await using s = await setup();
    assert.equal(await s.repository.headManifest("x", { signal }), undefined);
    s.server.hook = (request, response) => {
      if (request.url === "/v2/") return false;
      response.writeHead(404).end("<h1>not here</h1>");
      return true;
    };
    await assert.rejects(s.repository.headManifest("x", { signal }), code("unavailable"));
    await assert.rejects(s.repository.getManifest("x", { signal }), code("unavailable"));
    await assert.rejects(s.repository.deleteManifest("x", { signal }), code("unavailable"));
    await assert.rejects(Array.fromAsync(s.repository.tags({ signal })), code("unavailable"));
  });

  it("absence is asked of the registry as it is now, not as it once was", async ({ signal }) => {
    await using s = await setup();
    assert.equal(await s.repository.headManifest("x", { signal }), undefined);
    s.server.hook = (request, response) => request.url === "/v2/" && (response.writeHead(404).end(), true);
    await assert.rejects(s.repository.headManifest("x", { signal }), code("unavailable"));
  });

  it("a connection that breaks before the answer is unavailable", async ({ signal }) => {
    await using s = await setup();
    s.server.hook = (request) => (request.socket.destroy(), true);
    await assert.rejects(s.repository.headManifest("x", { signal }), code("unavailable"));
  });

  it("a deadline is a timeout, an abort is what aborted", async () => {
    await using s = await setup();
    s.server.hook = () => true; // never answers
    await assert.rejects(
      s.repository.headManifest("x", { signal: AbortSignal.timeout(50) }),
      code("timeout"),
    );
    const stop = new AbortController();
    const asked = s.repository.headManifest("x", { signal: stop.signal });
    stop.abort(new Error("enough"));
    await assert.rejects(asked, /enough/);
  });
});

describe("trying again", () => {
  it("reads are repeated through transient problem", async ({ signal }) => {
    await using s = await setup();
    const content = toBlobContent(randomBytes(1000));
    await s.repository.putBlob(content, { signal });
    for (const answer of [
      (response: ServerResponse) => void response.writeHead(503, { "retry-after": "0" }).end(),
      (response: ServerResponse) => void response.writeHead(500).end(),
      (response: ServerResponse) => void response.socket?.destroy(),
    ]) {
      s.server.hook = first(2, is("HEAD", /blobs/), answer);
      assert.deepEqual(await s.repository.headBlob(content.digest, { signal }), { size: 1000 });
    }
  });

  it("gives up after the last try and says what happened", async ({ signal }) => {
    await using s = await setup();
    s.server.hook = (_request, response) => (
      refuse(response, 503, "TOOMANYREQUESTS", "come back later"),
      true
    );
    await assert.rejects(s.repository.getManifest("x", { signal }), /come back later/);
    assert.equal(s.server.seen.length, retry.attempts);
  });

  it("a tag is not deleted twice when the outcome of the first deletion is unknown", async ({ signal }) => {
    await using s = await setup();
    s.server.hook = first(1, is("DELETE", /manifests/), (response) => void response.socket?.destroy());
    await assert.rejects(s.repository.deleteManifest("hibernate", { signal }), code("unavailable"));
    assert.equal(s.server.seen.filter((each) => each.method === "DELETE").length, 1);
  });

  it("a digest may be deleted twice", async ({ signal }) => {
    await using s = await setup();
    const bytes = Buffer.from("{}");
    const digest = await s.repository.putManifest("t", { bytes, mediaType: "application/json" }, { signal });
    s.server.hook = first(1, is("DELETE", /manifests/), (response) => void response.socket?.destroy());
    assert.equal(await s.repository.deleteManifest(digest, { signal }), true);
  });

  it("a wait that the registry asks for is kept", async ({ signal }) => {
    await using s = await setup();
    s.server.hook = first(
      1,
      is("GET", /manifests/),
      (response) => void response.writeHead(429, { "retry-after": "1" }).end(),
    );
    const started = performance.now();
    await assert.rejects(s.repository.getManifest("x", { signal }), code("notFound"));
    assert.ok(performance.now() - started >= 900);
  });
});

describe("broken downloads", () => {
  const bytes = randomBytes(1_000_000);
  const content = toBlobContent(bytes);

  async function withBlob(options: MemoryRegistryOptions, signal: AbortSignal): Promise<Setup> {
    const s = await setup(options);
    await s.repository.putBlob(content, { signal });
    return s;
  }

  /** Sends a part of what was asked for, then hangs up. */
  const cutAfter = (length: number) => (response: ServerResponse, request: IncomingMessage) => {
    const start = Number(/bytes=(\d+)/.exec(request.headers.range ?? "")?.[1] ?? 0);
    const headers = { "content-length": bytes.length - start };
    if (start > 0)
      response.writeHead(206, {
        ...headers,
        "content-range": `bytes ${start}-${bytes.length - 1}/${bytes.length}`,
      });
    else response.writeHead(200, headers);
    response.write(bytes.subarray(start, start + length), () =>
      setTimeout(() => response.socket?.destroy(), 20),
    );
  };

  for (const ranges of [true, false])
    it(`go on where they stopped, ${ranges ? "by range" : "by reading past what is there"}`, async ({
      signal,
    }) => {
      await using s = await withBlob({ ranges }, signal);
      s.server.hook = first(1, is("GET", /blobs/), cutAfter(300_000));
      assert.ok(bytes.equals(await s.repository.readBlob(content, { signal })));
      const gets = s.server.seen.filter((each) => each.method === "GET" && each.path.includes("/blobs/"));
      assert.equal(gets.length, 2);
      assert.match(gets[1]?.headers.range ?? "", /^bytes=[1-9]\d*-999999$/);
    });

  it("go on for as long as bytes arrive", async ({ signal }) => {
    await using s = await withBlob({}, signal);
    s.server.hook = first(8, is("GET", /blobs/), cutAfter(60_000));
    assert.ok(bytes.equals(await s.repository.readBlob(content, { signal })));
  });

  it("end as unavailable when nothing arrives any more", async ({ signal }) => {
    await using s = await withBlob({}, signal);
    s.server.hook = first(1000, is("GET", /blobs/), (response) => void response.socket?.destroy());
    await assert.rejects(s.repository.readBlob(content, { signal }), code("unavailable"));
  });

  it("a flipped bit is invalid, also when the connection broke in between", async ({ signal }) => {
    await using s = await withBlob({}, signal);
    const wrong = Buffer.from(bytes);
    wrong[700_000] = (wrong[700_000] ?? 0) ^ 1;
    s.server.repos.get("a/b")?.blobs.set(content.digest, wrong);
    await assert.rejects(s.repository.readBlob(content, { signal }), code("invalid"));
    s.server.hook = first(1, is("GET", /blobs/), cutAfter(100_000));
    await assert.rejects(s.repository.readBlob(content, { signal }), code("invalid"));
  });

  it("more or fewer bytes than announced are refused", async ({ signal }) => {
    await using s = await withBlob({}, signal);
    await assert.rejects(s.repository.readBlob({ ...content, size: 999_999 }, { signal }), code("invalid"));
    await assert.rejects(s.repository.readBlob({ ...content, size: 1_000_001 }, { signal }), code("invalid"));
  });

  it("an answer with another range is not taken for the right one", async ({ signal }) => {
    await using s = await withBlob({}, signal);
    s.server.hook = (request, response) => {
      if (request.headers.range === undefined) return false;
      response
        .writeHead(206, { "content-range": "bytes 0-9/1000000", "content-length": 10 })
        .end(bytes.subarray(0, 10));
      return true;
    };
    await assert.rejects(
      s.repository.readBlob({ ...content, offset: 500, length: 10 }, { signal: AbortSignal.timeout(5000) }),
      (error) => isFault(error),
    );
  });
});

describe("broken uploads", () => {
  const bytes = randomBytes(20 * 1024 * 1024);
  const content = toBlobContent(bytes);
  const stored = (s: Setup) => s.server.repos.get("a/b")?.blobs.get(content.digest);

  it("go on from the byte that the registry has", async ({ signal }) => {
    await using s = await setup();
    let cut = false;
    s.server.hook = (request) => {
      if (request.method === "PATCH" && !cut) {
        cut = true;
        let seen = 0;
        request.on("data", (piece: Buffer) => {
          seen += piece.length;
          if (seen > 5_000_000) request.socket.destroy();
        });
        request.pause(); // until the registry reads it
      }
      return false;
    };
    let sent = 0;
    await s.repository.putBlob(content, { signal, onSent: (count) => (sent += count) });
    assert.ok(stored(s)?.equals(bytes));
    const second = s.server.seen.filter((each) => each.method !== "HEAD" && each.headers["content-range"]);
    assert.equal(second.length, 1, "the rest is sent once, with its range");
    assert.ok((second[0]?.bodyBytes ?? 0) < bytes.length - 4_000_000);
    assert.ok(sent < bytes.length * 1.9);
  });

  it("do not hang behind a connection that the registry no longer reads from", async ({ signal }) => {
    await using s = await setup({}, { answerTimeoutMs: 300 });
    const small = toBlobContent(randomBytes(3_000_000));
    s.server.hook = first(1, is("PUT", /uploads/), (response, request) => {
      request.on("data", () => request.pause()); // answers, and leaves the rest of the body where it is
      response.writeHead(503).end();
    });
    await s.repository.putBlob(small, { signal });
    assert.ok(s.server.repos.get("a/b")?.blobs.has(small.digest));
  });

  it("start over when the session is lost", async ({ signal }) => {
    await using s = await setup();
    s.server.hook = first(1, is("PATCH", /uploads/), (response) =>
      refuse(response, 404, "BLOB_UPLOAD_UNKNOWN"),
    );
    await s.repository.putBlob(content, { signal });
    assert.ok(stored(s)?.equals(bytes));
  });

  it("notice that a lost answer was a success", async ({ signal }) => {
    await using s = await setup();
    const small = toBlobContent(randomBytes(5000));
    s.server.hook = async (request, response) => {
      if (request.method !== "PUT") return false;
      s.server.hook = undefined;
      response.end = () => (response.socket?.destroy(), response); // stores it, then the answer is lost
      return false;
    };
    assert.equal(await s.repository.putBlob(small, { signal }), "sent");
    assert.equal(s.server.seen.filter((each) => each.method === "PUT").length, 1);
  });

  it("content that is not what its digest says is refused by the registry and not tried again", async ({
    signal,
  }) => {
    await using s = await setup();
    const wrong = { ...toBlobContent(randomBytes(5000)), digest: content.digest };
    await assert.rejects(s.repository.putBlob(wrong, { signal }), code("badRequest"));
    assert.equal(stored(s), undefined);
    assert.equal(s.server.seen.filter((each) => each.method === "PUT").length, 1);
  });
});

describe("connections that no longer carry answers", () => {
  it("cost one timeout: the retry gets a new connection", async ({ signal }) => {
    await using s = await setup({}, { answerTimeoutMs: 300, retry: { attempts: 2, baseMs: 1, maxMs: 5 } });
    const bytes = Buffer.from("{}");
    const old = new Set<unknown>();
    let [cut, lost] = [false, 0];
    s.server.hook = async (request) => {
      if (!cut) old.add(request.socket);
      if (!cut || !old.has(request.socket)) return false;
      lost += 1;
      return new Promise(() => undefined);
    };
    await s.repository.putManifest("t", { bytes, mediaType: "application/json" }, { signal });
    const read = () => s.repository.getManifest("t", { signal });
    await Promise.all(Array.from({ length: 8 }, read));
    assert.ok(old.size >= 8, "as many connections are open");
    await setImmediate(); // the client sees the end of the last answer
    cut = true;
    assert.deepEqual((await read()).bytes, bytes);
    assert.equal(lost, 1, "one request was lost on an old connection");
  });
});

describe("credentials on the wire", () => {
  const login = { username: "u", password: "p" };
  const credentials = fixedCredential({ kind: "basic", ...login });

  it("one token serves all requests of its scope", async ({ signal }) => {
    const issued = new Map<string, readonly string[]>();
    await using s = await setup({ auth: { kind: "token", ...login, issued } }, { credentials });
    const contents = Array.from({ length: 10 }, () => toBlobContent(randomBytes(100)));
    await Promise.all(contents.map((each) => s.repository.putBlob(each, { signal })));
    await Promise.all(contents.map((each) => s.repository.readBlob(each, { signal })));
    assert.ok(issued.size <= 3, `${issued.size} tokens`);
    assert.deepEqual(
      new Set([...issued.values()].flat()),
      new Set(["repository:a/b:pull", "repository:a/b:pull,push"]),
    );
  });

  it("a token that the registry no longer takes is replaced", async ({ signal }) => {
    const issued = new Map<string, readonly string[]>();
    await using s = await setup({ auth: { kind: "token", ...login, issued } }, { credentials });
    const content = toBlobContent(randomBytes(100));
    await s.repository.putBlob(content, { signal });
    for (const token of issued.keys()) issued.set(token, []); // revoked
    assert.deepEqual(await s.repository.headBlob(content.digest, { signal }), { size: 100 });
  });

  it("a token that is about to end is replaced before it is used", async ({ signal }) => {
    const issued = new Map<string, readonly string[]>();
    await using s = await setup({ auth: { kind: "token", ...login, issued, lifetimeS: 0 } }, { credentials });
    await s.repository.headManifest("x", { signal });
    const before = s.server.seen.length;
    await s.repository.headManifest("x", { signal });
    const later = s.server.seen.slice(before).map((each) => each.path);
    assert.deepEqual(later[0]?.startsWith("/token"), true, "asks for a token first, not after a refusal");
  });

  it("an identity token is traded", async ({ signal }) => {
    const issued = new Map<string, readonly string[]>();
    const auth = { kind: "token", ...login, refreshToken: "r", issued } as const;
    await using s = await setup({ auth }, { credentials: fixedCredential({ kind: "refresh", token: "r" }) });
    assert.equal(await s.repository.headManifest("x", { signal }), undefined);
  });

  it("basic credentials are sent when the registry asks for them, and not before", async ({ signal }) => {
    await using s = await setup({ auth: { kind: "basic", ...login } }, { credentials });
    await s.repository.headManifest("x", { signal });
    assert.deepEqual(
      s.server.seen.map((each) => each.headers.authorization !== undefined),
      [false, true, true, true],
    );
  });

  it("wrong credentials are unauthorized after one exchange", async ({ signal }) => {
    const auth = { kind: "token", ...login, issued: new Map<string, readonly string[]>() } as const;
    const wrong = fixedCredential({ kind: "basic", username: "u", password: "wrong-secret" });
    await using s = await setup({ auth }, { credentials: wrong });
    await assert.rejects(
      s.repository.headManifest("x", { signal }),
      (error) => isFault(error, "unauthorized") && !error.message.includes("wrong-secret"),
    );
    assert.equal(s.server.seen.length, 2);
  });

  it("a fixed bearer token goes with every request", async ({ signal }) => {
    await using s = await setup({}, { credentials: fixedCredential({ kind: "bearer", token: "t" }) });
    await s.repository.headManifest("x", { signal });
    assert.ok(s.server.seen.every((each) => each.headers.authorization === "Bearer t"));
  });

  it("a redirect to another host gets no credentials, and one to the same host does", async ({ signal }) => {
    const bytes = randomBytes(1000);
    const content = toBlobContent(bytes);
    const elsewhere: IncomingMessage[] = [];
    await using storage = await startHttpServer({
      name: "storage",
      host: "127.0.0.1",
      port: 0,
      handler: (request, response) => {
        elsewhere.push(request);
        response.end(bytes);
      },
    });
    await using s = await setup({ auth: { kind: "basic", ...login } }, { credentials });
    await s.repository.putBlob(content, { signal });
    s.server.hook = (request, response) => {
      if (!is("GET", /blobs/)(request) || request.headers.authorization === undefined) return false;
      response.writeHead(307, { location: `${storage.url}/signed?key=hush` }).end();
      return true;
    };
    assert.ok(bytes.equals(await s.repository.readBlob(content, { signal })));
    assert.deepEqual(
      elsewhere.map((each) => each.headers.authorization),
      [undefined],
    );
  });

  it("credentials are not sent in the clear to a token service elsewhere", async ({ signal }) => {
    await using s = await setup({}, { credentials });
    s.server.hook = (_request, response) => {
      response.writeHead(401, { "www-authenticate": 'Bearer realm="http://auth.example/token"' }).end();
      return true;
    };
    await assert.rejects(s.repository.headManifest("x", { signal }), code("forbidden"));
  });
});

describe("lists", () => {
  it("a link to another host is not followed", async ({ signal }) => {
    await using s = await setup();
    s.server.hook = (_request, response) => {
      response.writeHead(200, { link: '<http://evil.example/v2/x>; rel="next"' }).end('{"tags":["a"]}');
      return true;
    };
    await assert.rejects(Array.fromAsync(s.repository.tags({ signal })), code("unavailable"));
  });
});
