/** WebSockets over HTTP/2 (RFC 8441). Guests speak HTTP/1.1: the handshake is made anew, and then bytes go both ways. */
import { randomBytes } from "node:crypto";
import type { ClientRequest, IncomingMessage } from "node:http";
import { constants, type ServerHttp2Stream } from "node:http2";
import type { Duplex } from "node:stream";
import { nodeHttp } from "@cocoon/core";
import { portClosed } from "./data-plane.ts";
import { readHeaders, type ProxyTarget } from "./proxy.ts";

/** What the two agree on. */
const agreed = ["sec-websocket-protocol", "sec-websocket-extensions"];

/** Resolves when the guest took the WebSocket, or its refusal went to the client. Throws when nothing answers at the port. */
export async function tunnelWebSocket(
  request: IncomingMessage,
  client: ServerHttp2Stream,
  { connect, signal }: Omit<ProxyTarget, "onAnswer">,
): Promise<void> {
  const { stream, release } = await connect({ signal });
  const close = () => {
    stream.destroy();
    // One that ended on both sides is no cut.
    if (!client.writableEnded) client.close(constants.NGHTTP2_INTERNAL_ERROR);
    release(true);
  };
  signal.addEventListener("abort", close, { once: true });
  stream.once("close", () => release(true));
  const forwarded = nodeHttp.request({
    createConnection: () => stream,
    method: "GET",
    path: request.url ?? "/",
    headers: {
      ...readHeaders(request),
      connection: "Upgrade",
      upgrade: "websocket",
      "sec-websocket-key": randomBytes(16).toString("base64"),
    },
    setHost: false,
  });
  forwarded.end();
  const answer = await awaitHandshake(forwarded);
  if (!answer) throw portClosed();
  const { statusCode = 502, headers } = answer.head;
  if (!answer.socket) {
    client.respond({ ":status": statusCode, "content-type": headers["content-type"] ?? "text/plain" });
    answer.head.pipe(client);
    return;
  }
  const kept = agreed.flatMap((name) => (typeof headers[name] === "string" ? [[name, headers[name]]] : []));
  client.respond({ ":status": 200, ...(Object.fromEntries(kept) as Record<string, string>) });
  if (answer.first.length > 0) client.write(answer.first);
  for (const end of [answer.socket, client]) end.once("close", close).on("error", close);
  answer.socket.pipe(client);
  client.pipe(answer.socket);
}

interface Handshake {
  readonly head: IncomingMessage;
  /** Absent when the guest answered otherwise. */
  readonly socket?: Duplex;
  readonly first: Buffer;
}

/** Undefined when the guest closed the connection without an answer. */
function awaitHandshake(forwarded: ClientRequest): Promise<Handshake | undefined> {
  return new Promise((resolve) => {
    forwarded.once("upgrade", (head: IncomingMessage, socket: Duplex, first: Buffer) =>
      resolve({ head, socket, first }),
    );
    forwarded.once("response", (head) => resolve({ head, first: Buffer.alloc(0) }));
    forwarded.once("error", () => resolve(undefined));
    forwarded.once("close", () => resolve(undefined));
  });
}
