/** Clients and guests that do not behave: bombs, slow readers, clients that vanish, guests that are lost. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { duplexPair, type Duplex } from "node:stream";
import { test, type TestContext } from "node:test";
import { gzipSync } from "node:zlib";
import { Fault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import type { PodAccess } from "../cluster/pod-access.ts";
import { encodeFrame } from "../guest/protocol.ts";
import { Guests } from "../sandboxes/guests.ts";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import { Tokens } from "../sandboxes/tokens.ts";
import { encodeEnvelope } from "./connect-codec.ts";
import { EnvdRoutes } from "./routes.ts";

const maxUploadBytes = 1024 * 1024;
const sandbox = {
  id: "i1",
  namespace: "a",
  spec: { account: "x", template: "base", env: {}, secure: false },
} as unknown as Sandbox;

/** The envd API over HTTP; `serve` plays the guest: it gets each request and its connection. */
async function open(t: TestContext, serve: (op: string, connection: Duplex) => void) {
  const pods = {
    connect: async () => {
      const [near, far] = duplexPair();
      far.on("error", () => undefined);
      far.once("data", (line: Buffer) => {
        const [head = ""] = line.toString("latin1").split("\n", 1);
        serve((JSON.parse(head) as { op: string }).op, far);
      });
      return { stream: near, failure: Promise.resolve(""), release: () => undefined };
    },
    run: () => Promise.reject(new Fault("unavailable", "no kubelet answers")),
    forget: () => undefined,
  } as unknown as PodAccess;
  const tokens = new Tokens("seed");
  const guests = new Guests(pods, tokens);
  const routes = new EnvdRoutes({ guests, tokens, maxUploadBytes, now: () => new Date() });
  const server = createServer((incoming, response) => void routes.serve(incoming, response, sandbox));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { port, guests, url: `http://127.0.0.1:${port}` };
}

/** The answer of a process stream, as soon as it begins; its body is not read. */
async function startProcess(port: number): Promise<IncomingMessage> {
  const headers = { "content-type": "application/connect+json" };
  const path = "/process.Process/Start";
  const sent = request({ host: "127.0.0.1", port, method: "POST", path, headers, agent: false });
  sent.on("error", () => undefined);
  sent.end(encodeEnvelope(0, { process: { cmd: "yes", args: [] } }));
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.on("error", () => undefined);
  return answer;
}

const started = encodeFrame("J", Buffer.from('{"pid":5}'));

test("a compressed bomb is refused once it is larger than allowed, and no file is completed", async (t) => {
  let received = 0;
  let complete = false;
  const { url } = await open(t, (_op, connection) => {
    connection.on("data", (data: Buffer) => {
      received += data.length;
      complete ||= data.at(-5) === "Z".charCodeAt(0) && data.readUInt32BE(data.length - 4) === 0;
    });
  });
  const answer = await fetch(`${url}/files?path=bomb`, {
    method: "POST",
    headers: { "content-type": "application/octet-stream", "content-encoding": "gzip" },
    body: gzipSync(Buffer.alloc(64 * maxUploadBytes)),
  });
  assert.equal(answer.status, 413);
  assert.equal(complete, false);
  assert.ok(received < 2 * maxUploadBytes, `${received} bytes reached the guest`);
});

test("a client that does not read holds up its own process only, and costs no memory", async (t) => {
  const total = 64 * 1024 * 1024;
  let written = 0;
  const { port, url } = await open(t, (op, connection) => {
    if (op !== "start") {
      connection.end(encodeFrame("Z", Buffer.alloc(0)));
      return;
    }
    connection.write(started);
    const frame = encodeFrame("O", Buffer.alloc(32 * 1024));
    const write = () => {
      while (written < total) {
        written += frame.length;
        if (!connection.write(frame)) {
          connection.once("drain", write);
          return;
        }
      }
    };
    write();
  });
  const answer = await startProcess(port);
  let seen = -1;
  // No more is taken from the guest once all buffers on the way are full.
  await eventually(
    () => {
      const before = seen;
      seen = written;
      assert.equal(before, seen);
    },
    { intervalMs: 300, timeoutMs: 30_000 },
  );
  assert.ok(written < total / 2, `${written} bytes were taken`);
  assert.equal((await fetch(`${url}/health`)).status, 204);
  answer.destroy();
});

test("a client that vanishes gives its connection to the guest back", async (t) => {
  const ended = Promise.withResolvers<void>();
  const { port } = await open(t, (_op, connection) => {
    connection.on("close", () => ended.resolve()).on("end", () => ended.resolve());
    connection.resume();
    connection.write(started);
  });
  (await startProcess(port)).destroy();
  await ended.promise;
});

test("a guest that is lost while a command runs cuts the stream, and health then says 502", async (t) => {
  let lost = false;
  const connections: Duplex[] = [];
  const { port, url, guests } = await open(t, (op, connection) => {
    if (lost) connection.destroy();
    else if (op === "start") {
      connections.push(connection);
      connection.write(started);
    } else connection.end(encodeFrame("Z", Buffer.alloc(0)));
  });
  const [first, second] = [await startProcess(port), await startProcess(port)];
  assert.equal((await fetch(`${url}/health`)).status, 204);
  const read = async (answer: IncomingMessage) => {
    for await (const _piece of answer) continue;
  };
  // Its connection ends, as when the node's kubelet is killed.
  const cut = assert.rejects(read(first), { code: "ECONNRESET" });
  lost = true;
  connections[0]?.destroy();
  await cut;
  const health = await fetch(`${url}/health`);
  assert.equal(health.status, 502);
  assert.match(((await health.json()) as { message: string }).message, /was not found/);
  // Nothing comes any more, not even an end, as when the node lost its power.
  const silent = assert.rejects(read(second), { code: "ECONNRESET" });
  await guests.cutUnlessAlive(sandbox);
  await silent;
});
