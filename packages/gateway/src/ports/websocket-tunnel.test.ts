import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import {
  connect,
  createServer as createHttp2Server,
  type Http2ServerRequest,
  type ServerHttp2Stream,
} from "node:http2";
import { connect as connectTcp, type AddressInfo, type Socket } from "node:net";
import { test, type TestContext } from "node:test";
import { TrafficError } from "./data-plane.ts";
import { tunnelWebSocket } from "./websocket-tunnel.ts";

async function listen(server: {
  listen(port: number, host: string): unknown;
  address(): unknown;
}): Promise<number> {
  server.listen(0, "127.0.0.1");
  await once(server as never, "listening");
  return (server.address() as AddressInfo).port;
}

/** A server in a guest that echoes what comes over a WebSocket for /chat, and refuses others. */
async function openGuest(t: TestContext) {
  const seen: IncomingMessage["headers"][] = [];
  const refuse: RequestListener = (_request, response) => response.writeHead(404).end("no socket here");
  const server = createServer(refuse);
  server.on("upgrade", (request, socket: Socket) => {
    seen.push(request.headers);
    if (request.url !== "/chat") {
      socket.end("HTTP/1.1 404 Not Found\r\nContent-Length: 14\r\nConnection: close\r\n\r\nno socket here");
      return;
    }
    socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Protocol: chat\r\n\r\nhello ",
    );
    socket.pipe(socket);
  });
  const port = await listen(server);
  t.after(() => server.close());
  return { port, seen };
}

/** A session with a server that passes WebSockets on to the guest's port. */
async function openSession(t: TestContext, { port, signal }: { port: number; signal: AbortSignal }) {
  const failures: unknown[] = [];
  const server = createHttp2Server({ settings: { enableConnectProtocol: true } });
  server.on("request", (_request, response) => response.writeHead(404).end()); // brings "connect"
  server.on("connect", (request: Http2ServerRequest) => {
    const stream: ServerHttp2Stream = request.stream;
    stream.on("error", () => undefined);
    const dial = async () => {
      const link = connectTcp(port, "127.0.0.1");
      link.on("error", () => undefined);
      return { stream: link, failure: Promise.resolve(""), release: () => undefined };
    };
    tunnelWebSocket(request as unknown as IncomingMessage, stream, { connect: dial, signal }).catch(
      (error: unknown) => {
        failures.push(error);
        stream.respond({ ":status": 502 }, { endStream: true });
      },
    );
  });
  const session = connect(`http://127.0.0.1:${await listen(server)}`);
  t.after(() => {
    session.destroy();
    server.close();
  });
  await once(session, "remoteSettings");
  const open = (path: string, headers = {}) => {
    const stream = session.request({
      ":method": "CONNECT",
      ":protocol": "websocket",
      ":path": path,
      ...headers,
    });
    stream.on("error", () => undefined);
    return stream;
  };
  return { open, failures };
}

async function readText(stream: AsyncIterable<Buffer>): Promise<string> {
  let text = "";
  for await (const piece of stream) text += piece.toString();
  return text;
}

test("a WebSocket over HTTP/2 reaches a guest that speaks HTTP/1.1, without the gateway's tokens", async (t) => {
  const { port, seen } = await openGuest(t);
  const { open } = await openSession(t, { port, signal: t.signal });
  const stream = open("/chat", { "sec-websocket-protocol": "chat", "e2b-traffic-access-token": "secret" });
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  assert.deepEqual([headers[":status"], headers["sec-websocket-protocol"]], [200, "chat"]);
  stream.end("and back");
  assert.equal(await readText(stream), "hello and back");
  assert.equal(seen[0]?.["e2b-traffic-access-token"], undefined);
  assert.ok(seen[0]?.["sec-websocket-key"]);
});

test("a refusal of the guest is the answer, and a closed port is an error", async (t) => {
  const { port } = await openGuest(t);
  const { open } = await openSession(t, { port, signal: t.signal });
  const stream = open("/other");
  const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
  assert.equal(headers[":status"], 404);
  assert.equal(await readText(stream), "no socket here");
  const gone = await openSession(t, { port: 1, signal: t.signal });
  const [refused] = (await once(gone.open("/chat"), "response")) as [Record<string, unknown>];
  assert.equal(refused[":status"], 502);
  assert.ok(gone.failures[0] instanceof TrafficError);
});

test("the stream is reset when the machine goes", async (t) => {
  const end = new AbortController();
  const { port } = await openGuest(t);
  const { open } = await openSession(t, { port, signal: end.signal });
  const stream = open("/chat");
  await once(stream, "response");
  const closed = new Promise((resolve) => stream.once("close", resolve));
  end.abort();
  await closed;
  assert.equal(stream.rstCode, 2);
});
