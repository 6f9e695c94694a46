/** The listener of the gateway: which part of it a request is for. */
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServerHttp2Stream } from "node:http2";
import { Server as HttpsServer } from "node:https";
import type { Duplex } from "node:stream";
import { startHttpServer, type RunningServer } from "@cocoon/core";
import type { ControlRouter } from "./control/router.ts";
import { ApiError, sendEmpty, sendError, toApiError } from "./http/answer.ts";
import { alpnProtocols, serveHttp2 } from "./http/http2.ts";
import type { PortLinks } from "./ports/port-links.ts";
import { tryReadTarget } from "./ports/target.ts";
import type { Traffic } from "./ports/traffic.ts";
import type { GatewayOptions } from "./start.ts";
import { uploadPrefix, type BuildFiles } from "./templates/build-files.ts";

/** A stream may be silent between two keepalives, which clients choose. */
const stallTimeoutMs = 600_000;
/** A burst of clients on a busy host is no attack: more than the ten seconds that other parts give. */
const headersTimeoutMs = 60_000;

export interface Handlers {
  readonly router: ControlRouter;
  readonly traffic: Traffic;
  readonly links: PortLinks;
  readonly files: BuildFiles;
  readonly domain: string | undefined;
}

export async function listen(
  { listen: address, tls }: GatewayOptions,
  handlers: Handlers,
): Promise<RunningServer> {
  const handler = (request: IncomingMessage, response: ServerResponse) =>
    void answer(request, response, handlers);
  const server = await startHttpServer({
    name: "gateway",
    ...address,
    ...(tls ? { tls: await readCertificate(tls) } : {}),
    requestTimeoutMs: 0,
    headersTimeoutMs,
    stallTimeoutMs,
    handler,
  });
  server.server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    try {
      const target = tryReadTarget(request, handlers.domain);
      if (target) {
        void handlers.traffic.upgrade(request, { socket, head }, target);
        return;
      }
    } catch {
      // Below: there is nothing to upgrade to.
    }
    socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  if (!(server.server instanceof HttpsServer)) return server;
  const webSocket = (request: IncomingMessage, stream: ServerHttp2Stream) =>
    tunnel(request, stream, handlers);
  const http2 = serveHttp2(server.server, { request: handler, webSocket });
  const stop = () => {
    http2[Symbol.dispose]();
    return server.stop();
  };
  return { ...server, stop, [Symbol.asyncDispose]: stop };
}

function tunnel(request: IncomingMessage, stream: ServerHttp2Stream, { traffic, domain }: Handlers): void {
  const refuse = () => stream.respond({ ":status": 400 }, { endStream: true });
  try {
    const target = tryReadTarget(request, domain);
    if (target) void traffic.tunnel(request, stream, target);
    else refuse();
  } catch {
    refuse();
  }
}

async function readCertificate({ certFile, keyFile }: NonNullable<GatewayOptions["tls"]>) {
  return { cert: await readFile(certFile), key: await readFile(keyFile), ALPNProtocols: [...alpnProtocols] };
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { router, traffic, links, files, domain }: Handlers,
): Promise<void> {
  try {
    const target = tryReadTarget(request, domain);
    if (target && (await links.tryServe(request, response, target))) return;
    if (target) return await traffic.serve(request, response, target);
    if (request.url === "/health" && request.method === "GET") {
      response.writeHead(200, { "content-type": "text/plain", "content-length": "2" }).end("ok");
      return;
    }
    if (request.method === "PUT" && request.url?.startsWith(uploadPrefix)) {
      await files.take(request);
      sendEmpty(response, 200);
      return;
    }
    await router.serve(request, response);
  } catch (error) {
    sendError(response, error instanceof ApiError ? error : toApiError(error));
  }
}
