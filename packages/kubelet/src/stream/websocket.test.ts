/** Exec over WebSocket on a real connection: what is right works, whatever else comes ends the connection. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { test } from "node:test";
import { seededRandom, testSeed, count } from "@cocoon/testkit";
import fc from "fast-check";
import { WebSocket } from "ws";
import type { CommandTransport } from "./remote-command.ts";
import { acceptWebSocketCommand } from "./websocket-command.ts";

interface TestServer extends AsyncDisposable {
  readonly port: number;
  /** The command that the next connection becomes. */
  next(): Promise<CommandTransport>;
}

async function startServer(tty = false): Promise<TestServer> {
  const waiting: ((transport: CommandTransport) => void)[] = [];
  const server = createServer();
  server.on("upgrade", (request, socket, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    const query = { command: ["cat"], stdin: true, stdout: true, stderr: !tty, tty };
    const times = { creationMs: 1_000, idleMs: 60_000, lingerMs: 200 };
    void acceptWebSocketCommand({ request, socket, head }, query, times).then((transport) => {
      if (transport) waiting.shift()?.(transport);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    next: () => new Promise((resolve) => void waiting.push(resolve)),
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

test("input until its half-close, sizes, output, and the exit code before close 1000", async () => {
  await using server = await startServer(true);
  const accepted = server.next();
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/`, "v5.channel.k8s.io");
  const received: Buffer[] = [];
  socket.on("message", (data: Buffer) => received.push(data));
  await once(socket, "open");
  const { io, finish } = await accepted.then((transport) => ({
    io: transport.io,
    finish: transport.finish.bind(transport),
  }));
  socket.send(Buffer.from([4, ...Buffer.from('{"Width":80,"Height":24}')]));
  socket.send(Buffer.from([9, 1, 2, 3]));
  socket.send(Buffer.from([0, ...Buffer.from("hello")]));
  socket.send(Buffer.from([255, 0]));
  const input = io.stdin ? Buffer.concat(await io.stdin.toArray()).toString() : "";
  assert.equal(input, "hello");
  for await (const size of io.resize ?? []) {
    assert.deepEqual(size, { width: 80, height: 24 });
    break;
  }
  io.stdout?.write("out");
  const closed = once(socket, "close") as Promise<[number]>;
  await finish({ kind: "exited", code: 3 });
  assert.equal((await closed)[0], 1000);
  const output = received.filter((data) => data[0] === 1).map((data) => data.toString("utf8", 1));
  assert.equal(output.join(""), "out");
  const status = received.find((data) => data[0] === 3)?.toString("utf8", 1) ?? "";
  assert.match(status, /"reason":"ExitCode","message":"3"/);
});

test("a message that is too large is refused with its reason, and the command hears of it", async () => {
  await using server = await startServer();
  const accepted = server.next();
  const socket = new WebSocket(`ws://127.0.0.1:${server.port}/`, "v5.channel.k8s.io");
  await once(socket, "open");
  const { io } = await accepted;
  const closed = once(socket, "close") as Promise<[number]>;
  socket.send(Buffer.alloc(1024 * 1024 + 1));
  assert.equal((await closed)[0], 1009);
  if (!io.signal.aborted) await once(io.signal, "abort");
});

/** A connection after its handshake, as bytes. */
async function rawConnection(port: number): Promise<Socket> {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => undefined);
  const key = randomBytes(16).toString("base64");
  socket.write(
    `GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Protocol: v5.channel.k8s.io\r\n\r\n`,
  );
  await once(socket, "data");
  return socket;
}

test("whatever frames come, nothing crashes, and the connection ends", async () => {
  await using server = await startServer();
  const random = seededRandom(testSeed());
  const noise = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 200 }),
    // A frame's header with any opcode, flags and length, and less data than it says.
    fc
      .tuple(fc.nat(255), fc.nat(255), fc.uint8Array({ maxLength: 40 }))
      .map(([first, second, rest]) => Uint8Array.from([first, second, ...rest])),
  );
  await fc.assert(
    fc.asyncProperty(fc.array(noise, { minLength: 1, maxLength: 8 }), async (pieces) => {
      const accepted = server.next();
      const socket = await rawConnection(server.port);
      const { io } = await accepted;
      io.stdin?.resume();
      const gone = io.signal.aborted ? Promise.resolve([]) : once(io.signal, "abort");
      for (const piece of pieces) socket.write(piece);
      socket.end();
      socket.resume();
      await gone;
    }),
    { numRuns: count({ small: 60, full: 2_000 }), seed: Math.floor(random() * 2 ** 31) },
  );
});
