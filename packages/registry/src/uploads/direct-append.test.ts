/** Bodies that land directly, on real connections: what is in the file is what was sent, whoever is slow or leaves. */
import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { constants } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { eventually, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { acceptForDirectReceipt, offerDirectReceipt } from "../http/direct-receipt.ts";
import { digestOf, type Digest } from "../names.ts";
import { appendBody, type Appended } from "./append.ts";
import { LandingRooms } from "./landing-room.ts";
import { UploadThreads, type ThreadedWriter } from "./upload-threads.ts";

interface Upload extends Appended {
  readonly path: string;
  readonly digest: Digest | undefined;
  /** Node's parser saw the whole body: it did not land directly. */
  readonly byStream: boolean;
}

/** A server that appends every body that is PUT to a file of its own, and says so. */
async function startWorld(slowed: (writer: ThreadedWriter) => ThreadedWriter = (writer) => writer) {
  await using stack = new AsyncDisposableStack();
  const directory = stack.use(await temporaryDirectory());
  const threads = stack.use(new UploadThreads({ threads: 2 }));
  const rooms = stack.use(new LandingRooms());
  const uploads: Upload[] = [];
  const take = async (request: IncomingMessage, response: ServerResponse) => {
    const path = join(directory.path, String(request.url).slice(1));
    await using file = await open(path, constants.O_RDWR | constants.O_CREAT);
    offerDirectReceipt({ request, response }, Number(request.headers["content-length"]));
    const writer = slowed(threads.open("sha256"));
    using _held = writer.hold();
    const appended = await appendBody(request, { writer, file, position: 0, maxBytes: 2 ** 30, rooms });
    uploads.push({ ...appended, path, digest: await writer.digest(), byStream: request.complete });
    response.end(appended.failure?.message ?? "done");
  };
  const server = createServer((request, response) => {
    if (request.method === "PUT") void take(request, response);
    else response.end("hello");
  });
  acceptForDirectReceipt(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(() => new Promise<void>((resolve) => void server.close(() => resolve())));
  stack.defer(() => server.closeAllConnections());
  const { port } = server.address() as AddressInfo;
  const resources = stack.move();
  return { server, port, uploads, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

interface Connection {
  readonly socket: Socket;
  /** Everything that the server said so far. */
  readonly heard: () => string;
}

async function connectTo(port: number): Promise<Connection> {
  const socket = connect(port, "127.0.0.1");
  let text = "";
  socket.on("data", (chunk: Buffer) => (text += chunk.toString("latin1")));
  socket.on("error", () => undefined); // that the other side hangs up is a part of some tests
  await once(socket, "connect");
  return { socket, heard: () => text };
}

async function send(socket: Socket, bytes: Uint8Array | string): Promise<void> {
  if (!socket.write(bytes)) await Promise.race([once(socket, "drain"), once(socket, "close")]);
}

const head = (name: string, bytes: number) =>
  `PUT /${name} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`;

async function isAsSent(upload: Upload | undefined, content: Buffer): Promise<void> {
  assert.ok(upload);
  assert.deepEqual([upload.failure, upload.writtenBytes], [undefined, content.length]);
  assert.ok((await readFile(upload.path)).equals(content), "the file is what was sent");
  assert.equal(upload.digest, digestOf(content));
}

/** Small bodies are often here before anybody asks for them; of one that is longer than this only a part can be. */
const surelyDirect = 1_000_000;

test("bodies of any length, sent in pieces of any size, to disks of any speed", async () => {
  const random = seededRandom(testSeed());
  const below = (most: number) => Math.floor(random() * most);
  let turns = 0;
  await using world = await startWorld((writer) => ({
    ...writer,
    write: async (...order) => {
      for (let turn = turns; turn > 0; turn -= 1) await setImmediate();
      return writer.write(...order);
    },
  }));
  for (let round = 0; round < 25; round += 1) {
    turns = below(3) * below(60);
    const content = randomBytes(random() < 0.5 ? 1 + below(300_000) : surelyDirect + below(12_000_000));
    const { socket, heard } = await connectTo(world.port);
    if (random() < 0.5) {
      await send(socket, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); // an answered request leaves the connection as it was
      await eventually(() => assert.match(heard(), /hello/));
    }
    const first = below(Math.min(content.length, 200_000));
    await send(
      socket,
      Buffer.concat([Buffer.from(head(String(round), content.length)), content.subarray(0, first)]),
    );
    const most = 2 ** (8 + below(15));
    for (let at = first; at < content.length;) {
      const piece = content.subarray(at, at + 1 + below(most));
      await send(socket, piece);
      at += piece.length;
      if (random() < 0.05) await setImmediate();
    }
    await eventually(() => assert.match(heard(), /done$/));
    assert.match(heard(), /connection: close/i);
    const upload = world.uploads.at(-1);
    await isAsSent(upload, content);
    if (content.length >= surelyDirect) assert.equal(upload?.byStream, false, `${content.length} bytes`);
  }
});

test("many at once: those that find no room come by their stream", async () => {
  await using world = await startWorld();
  const contents = Array.from({ length: 12 }, () => randomBytes(3_000_000));
  const clients = await Promise.all(contents.map(() => connectTo(world.port)));
  for (const [index, { socket }] of clients.entries()) await send(socket, head(String(index), 3_000_000));
  await Promise.all(clients.map(({ socket }, index) => send(socket, contents[index] ?? "")));
  for (const { heard } of clients) await eventually(() => assert.match(heard(), /done$/));
  const byName = new Map(world.uploads.map((upload) => [upload.path.split("/").at(-1), upload]));
  for (const [index, content] of contents.entries()) await isAsSent(byName.get(String(index)), content);
  assert.ok(world.uploads.some(({ byStream }) => !byStream));
});

test("a client that leaves leaves what it sent, with its digest", async () => {
  await using world = await startWorld();
  const content = randomBytes(5_000_000);
  const { socket } = await connectTo(world.port);
  await send(socket, head("left", 9_000_000));
  await send(socket, content);
  socket.end();
  const upload = await eventually(() => world.uploads[0] ?? assert.fail("not over yet"));
  assert.match(upload.failure?.message ?? "", /the client went away/);
  assert.equal(upload.writtenBytes, content.length);
  assert.ok((await readFile(upload.path)).equals(content));
  assert.equal(upload.digest, digestOf(content));
});

test("what follows the body is not part of it, and the connection ends with the answer", async () => {
  await using world = await startWorld();
  const content = randomBytes(4_000_000);
  const { socket, heard } = await connectTo(world.port);
  await send(socket, head("followed", content.length));
  await send(socket, Buffer.concat([content, Buffer.from("GET / HTTP/1.1\r\nHost: x\r\n\r\n")]));
  await once(socket, "close");
  assert.match(heard(), /done$/);
  await isAsSent(world.uploads[0], content);
  assert.equal(world.uploads[0]?.byStream, false);
  await eventually(async () => assert.equal(await connections(world.server), 0)); // the server can count
});

function connections(server: ReturnType<typeof createServer>): Promise<number> {
  return new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error ? reject(error) : resolve(count)));
  });
}

test("a disk that fails ends the upload while the client still sends", async () => {
  const full = Object.assign(new Error("no space left"), { code: "ENOSPC" });
  await using world = await startWorld((writer) => ({
    ...writer,
    write: (file, order) =>
      order.position > 2_000_000
        ? Promise.resolve({ writtenBytes: 0, failure: full })
        : writer.write(file, order),
  }));
  const content = randomBytes(40_000_000);
  const { socket } = await connectTo(world.port);
  await send(socket, head("failed", content.length));
  socket.write(content);
  const upload = await eventually(() => world.uploads[0] ?? assert.fail("not over yet"));
  assert.equal(upload.failure, full);
  const kept = await readFile(upload.path);
  assert.ok(kept.length > 2_000_000 && kept.equals(content.subarray(0, upload.writtenBytes)));
});

test("a disk that takes nothing stops the client instead of filling the memory", async () => {
  const opened = Promise.withResolvers<void>();
  await using world = await startWorld((writer) => ({
    ...writer,
    write: async (...order) => {
      await opened.promise;
      return writer.write(...order);
    },
  }));
  const content = randomBytes(40_000_000);
  const { socket, heard } = await connectTo(world.port);
  const receiving = once(world.server, "request") as Promise<[IncomingMessage]>;
  await send(socket, head("stopped", content.length));
  const [request] = await receiving;
  const sent = send(socket, content);
  // It is stopped when a whole second brings nothing new.
  let before = -1;
  await eventually(
    () => {
      const now = request.socket.bytesRead;
      const isStill = now > 1_000_000 && now === before;
      before = now;
      assert.ok(isStill, `${now} bytes so far`);
    },
    { intervalMs: 1_000 },
  );
  assert.ok(request.socket.bytesRead < 6_000_000, `${request.socket.bytesRead} bytes were taken`);
  opened.resolve();
  await sent;
  await eventually(() => assert.match(heard(), /done$/));
  await isAsSent(world.uploads[0], content);
});
