/** What a client can do to a listener, plain and TLS: every connection ends in bounded time, and so does the server. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { connect as connectTls } from "node:tls";
import { setTimeout as delay } from "node:timers/promises";
import { startHttpServer, type ListenOptions, type RunningServer } from "./http-server.ts";

function makeCertificate(): { readonly cert: Buffer; readonly key: Buffer } {
  const directory = mkdtempSync(join(tmpdir(), "http-listener-"));
  const [key, cert] = [join(directory, "key"), join(directory, "cert")];
  const how = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  execFileSync("openssl", [...how, "-keyout", key, "-out", cert, "-days", "1", "-subj", "/CN=test"], {
    stdio: "ignore",
  });
  const pair = { cert: readFileSync(cert), key: readFileSync(key) };
  rmSync(directory, { recursive: true });
  return pair;
}

const tls = makeCertificate();
const answerBytes = 64 * 1024 * 1024;

/** Reads bodies to their end; `/large` sends more than any socket buffer holds; `/hang` never answers. */
function handle(request: IncomingMessage, response: ServerResponse): void {
  if (request.url === "/hang") return;
  if (request.url === "/large") return void response.end(Buffer.alloc(answerBytes));
  request.resume().on("end", () => setTimeout(() => response.end("whole"), 20));
}

const quick = {
  name: "test",
  host: "127.0.0.1",
  port: 0,
  headersTimeoutMs: 200,
  stallTimeoutMs: 300,
  drainMs: 300,
  handler: handle,
} satisfies ListenOptions;

for (const kind of ["plain", "tls"] as const) {
  const start = (options: Partial<ListenOptions> = {}): Promise<RunningServer> =>
    startHttpServer({ ...quick, ...(kind === "tls" ? { tls } : {}), ...options });

  /** A connection on which a request can be sent: past the handshake. */
  const open = async ({ port }: RunningServer): Promise<Socket> => {
    if (kind === "plain") {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      await once(socket, "connect");
      return socket.on("error", () => undefined);
    }
    const options = { port, host: "127.0.0.1", rejectUnauthorized: false, allowHalfOpen: true };
    const socket = connectTls(options);
    await once(socket, "secureConnect");
    return socket.on("error", () => undefined);
  };

  /** Rejects when the server does not close the connection in time. */
  const assertClosed = async (socket: Socket, withinMs = 4_000): Promise<string> => {
    let text = "";
    socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
    await new Promise<void>((resolve, reject) => {
      const late = setTimeout(() => reject(new Error("the server did not close the connection")), withinMs);
      for (const event of ["end", "close"])
        socket.once(event, () => {
          clearTimeout(late);
          resolve();
        });
      if (socket.destroyed) socket.emit("close");
    });
    return text;
  };

  /** A server that keeps no trace of its clients. */
  const assertEmpty = async (server: RunningServer): Promise<void> => {
    for (let look = 0; look < 300 && server.connections() > 0; look += 1) await delay(20);
    assert.equal(server.connections(), 0);
  };

  describe(`HTTP listener, ${kind}`, () => {
    it("closes a connection that never says anything", async () => {
      await using server = await start();
      const raw = connect(server.port, "127.0.0.1").on("error", () => undefined);
      const silent = await open(server);
      await Promise.all([assertClosed(raw), assertClosed(silent)]);
      await assertEmpty(server);
    });

    it("closes a connection whose headers do not end", async () => {
      await using server = await start();
      const socket = await open(server);
      socket.write("GET / HTTP/1.1\r\nHost: x\r\n");
      const drip = setInterval(() => socket.write("X: y\r\n"), 50);
      assert.match(await assertClosed(socket), /^HTTP\/1\.1 408 /);
      clearInterval(drip);
      await assertEmpty(server);
    });

    it("closes a refused connection whose client keeps its side open", async () => {
      await using server = await start();
      const socket = await open(server);
      socket.write("nonsense\r\n\r\n");
      await delay(100);
      assert.match(await assertClosed(socket), /^HTTP\/1\.1 400 /);
      await assertEmpty(server);
    });

    it("closes a connection whose body stalls, or comes byte by byte", async () => {
      await using server = await start();
      const [stalled, dripping] = [await open(server), await open(server)];
      for (const socket of [stalled, dripping])
        socket.write("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\nabc");
      const drip = setInterval(() => dripping.write("x"), 50);
      await Promise.all([assertClosed(stalled), assertClosed(dripping)]);
      clearInterval(drip);
      await assertEmpty(server);
    });

    it("does not close a body that is slow but moves", async () => {
      await using server = await start();
      const socket = await open(server);
      const piece = "x".repeat(2_000);
      socket.write(`POST / HTTP/1.1\r\nHost: x\r\nContent-Length: ${10 * piece.length}\r\n\r\n`);
      let answer = "";
      socket.on("data", (chunk: Buffer) => (answer += chunk.toString("latin1")));
      for (let sent = 0; sent < 10; sent += 1) {
        await delay(100);
        socket.write(piece);
      }
      await delay(200);
      assert.match(answer, /^HTTP\/1\.1 200 /);
      socket.destroy();
    });

    it("closes a connection whose client does not read its answer", async () => {
      await using server = await start();
      const socket = await open(server);
      socket.pause();
      socket.write("GET /large HTTP/1.1\r\nHost: x\r\n\r\n");
      await delay(100);
      assert.equal(server.connections(), 1);
      await assertEmpty(server);
      socket.destroy();
    });

    it("answers a client that closed its side after the request", async () => {
      await using server = await start({ answersHalfClosed: true });
      const socket = await open(server);
      const answer = assertClosed(socket);
      socket.end("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc");
      assert.match(await answer, /^HTTP\/1\.1 200 [^]*whole/);
      await assertEmpty(server);
    });

    it("aborts the request of a client that closed its side, unless configured to answer", async () => {
      const aborted = Promise.withResolvers<void>();
      await using server = await start({
        handler: (request) => request.once("close", () => aborted.resolve()),
      });
      const socket = await open(server);
      socket.end("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      await aborted.promise;
      await assertClosed(socket);
    });

    it("limits the connections of one address and frees them again", async () => {
      await using server = await start({ maxConnectionsPerAddress: 3, headersTimeoutMs: 3_000 });
      const held = [await open(server), await open(server), await open(server)];
      const refused = connect(server.port, "127.0.0.1").on("error", () => undefined);
      await assertClosed(refused);
      const other = connect({ port: server.port, host: "127.0.0.1", localAddress: "127.0.0.2" });
      await once(other, "connect");
      await delay(50);
      assert.equal(server.connections(), 4, "another address has its own limit");
      for (const socket of [...held, other]) socket.destroy();
      await assertEmpty(server);
      (await open(server)).destroy();
    });

    it("stops within its grace period, whatever clients do", async () => {
      const server = await start({ headersTimeoutMs: 60_000, stallTimeoutMs: 60_000 });
      server.server.on("upgrade", (_request: IncomingMessage, socket: Socket) => {
        socket.on("error", () => undefined);
      });
      const silent = connect(server.port, "127.0.0.1").on("error", () => undefined);
      await once(silent, "connect");
      const requests = [
        "",
        "GET / HTTP/1.1\r\n",
        "GET /hang HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc",
        "GET /large HTTP/1.1\r\nHost: x\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n",
      ];
      const sockets = await Promise.all(requests.map(() => open(server)));
      for (const [index, socket] of sockets.entries()) socket.pause().write(requests[index] ?? "");
      await delay(100);
      const startedMs = performance.now();
      await server.stop();
      const tookMs = performance.now() - startedMs;
      assert.ok(tookMs < quick.drainMs + 1_000, `took ${Math.round(tookMs)} ms`);
      for (const socket of [silent, ...sockets]) socket.destroy();
    });

    it("refuses what two servers could read differently, and takes an absolute target", async () => {
      await using server = await start({ answersHalfClosed: true });
      const send = async (head: string) => {
        const socket = await open(server);
        const answer = assertClosed(socket);
        socket.end(`${head}\r\nConnection: close\r\n\r\n`);
        return answer;
      };
      assert.match(await send("GET / HTTP/1.1\r\nHost: a\r\nHost: b"), /^HTTP\/1\.1 400 /);
      assert.match(
        await send("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked"),
        /^HTTP\/1\.1 400 /,
      );
      assert.match(await send("GET http://a/x?y=1 HTTP/1.1\r\nHost: a"), /^HTTP\/1\.1 200 /);
    });

    it("notices when clients cannot reach it", async () => {
      await using server = await start({ maxConnections: 1, headersTimeoutMs: 60_000 });
      await server.checkListener({ path: "/", timeoutMs: 2_000 });
      await assertEmpty(server);
      const holder = await open(server);
      await assert.rejects(server.checkListener({ path: "/", timeoutMs: 500 }), /does not answer/);
      holder.destroy();
      await assertEmpty(server);
      await server.checkListener({ path: "/", timeoutMs: 2_000 });
    });
  });
}
