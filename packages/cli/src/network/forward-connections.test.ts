import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { text } from "node:stream/consumers";
import { forwardConnections } from "./forward-connections.ts";

/** A listener that leads to a server with that behaviour; returns its port. */
async function joined(t: TestContext, serve: (socket: Socket) => void): Promise<number> {
  const target = await listening(t, createServer({ allowHalfOpen: true }, serve));
  const listener = createServer();
  forwardConnections(listener, { host: "127.0.0.1", port: target });
  return listening(t, listener);
}

async function listening(t: TestContext, server: Server): Promise<number> {
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

test("a client that has said all still gets the whole answer", async (t) => {
  const port = await joined(t, (socket) => {
    let bytes = 0;
    socket.on("data", (chunk: Buffer) => (bytes += chunk.length));
    socket.on("end", () => socket.end(`${bytes}`));
  });
  const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  client.end(Buffer.alloc(5_000_000));
  assert.equal(await text(client), "5000000");
});

test("a connection that is cut off at one end ends at the other", async (t) => {
  const cut = Promise.withResolvers<unknown>();
  const port = await joined(t, (socket) => {
    socket.on("error", () => undefined).once("close", cut.resolve);
    socket.write("here");
  });
  const client = connect({ port, host: "127.0.0.1" });
  await once(client, "data");
  client.resetAndDestroy();
  await cut.promise;
});

test("a target that does not listen ends the connection", async (t) => {
  const gone = createServer();
  const free = await listening(t, gone);
  gone.close();
  await once(gone, "close");
  const listener = createServer();
  forwardConnections(listener, { host: "127.0.0.1", port: free });
  const client = connect({ port: await listening(t, listener), host: "127.0.0.1" });
  const closed = Promise.withResolvers<unknown>();
  client.on("error", () => undefined).once("close", closed.resolve);
  await closed.promise;
});
