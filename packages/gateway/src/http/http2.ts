/** HTTP/2 on the listener of HTTP/1.1: a TLS client chooses by ALPN, and the same handler answers both. */
import {
  createServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Server as HttpsServer } from "node:https";
import type { TLSSocket } from "node:tls";

export const alpnProtocols = ["h2", "http/1.1"];
const maxStreams = 250;
/** Frames of a client that break the protocol again and again: see CVE-2019-9512 and its like. */
const maxInvalidFrames = 100;
const maxHeaderPairs = 200;
const resetCode = 2; // INTERNAL_ERROR: clients take other codes for a clean end

export interface Http2Handlers {
  readonly request: RequestListener;
  /** A WebSocket of RFC 8441: the stream is its socket once the request was answered with 200. */
  readonly webSocket: (request: IncomingMessage, stream: ServerHttp2Stream) => void;
}

/** Ends its sessions when it is disposed; requests that are open finish first. */
export function serveHttp2(server: HttpsServer, handlers: Http2Handlers): Disposable {
  const http2 = createServer({
    settings: {
      maxConcurrentStreams: maxStreams,
      maxHeaderListSize: 32 * 1024,
      enableConnectProtocol: true,
    },
    maxSessionInvalidFrames: maxInvalidFrames,
    maxHeaderListPairs: maxHeaderPairs,
  });
  const sessions = new Set<ServerHttp2Session>();
  http2.on("session", (session) => {
    sessions.add(session);
    session.once("close", () => sessions.delete(session));
    session.on("error", () => session.destroy());
  });
  http2.on("request", (request, response) => handlers.request(...adapt(request, response)));
  http2.on("connect", (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const { stream } = request;
    stream.on("error", () => stream.destroy());
    if (request.headers[":protocol"] === "websocket") handlers.webSocket(adapt(request, response)[0], stream);
    else response.writeHead(405).end();
  });
  const [serveHttp1] = server.listeners("secureConnection");
  server.removeAllListeners("secureConnection");
  server.on("secureConnection", (socket: TLSSocket) => {
    if (socket.alpnProtocol === "h2") http2.emit("connection", socket);
    else serveHttp1?.call(server, socket);
  });
  return {
    [Symbol.dispose]: () => {
      for (const session of sessions) session.close();
    },
  };
}

/** Handlers see the host where HTTP/1.1 has it. */
function adapt(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
): [IncomingMessage, ServerResponse & { req: IncomingMessage }] {
  request.headers.host ??= request.authority;
  return [
    request as unknown as IncomingMessage,
    response as unknown as ServerResponse & { req: IncomingMessage },
  ];
}

/** Ends an answer so that no client takes it for complete. */
export function cutResponse(response: ServerResponse): void {
  const { stream } = response as unknown as Partial<Http2ServerResponse>;
  if (stream) stream.close(resetCode);
  else response.destroy();
}
