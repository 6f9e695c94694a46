/** An HTTP(S) server with a lifetime: listens, drains, ends. What it answers is the caller's business. */
import type http from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { Fault, systemCode } from "./fault.ts";
import { nodeHttp } from "./node-http.ts";

export interface ListenOptions {
  readonly name: string;
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  readonly handler: http.RequestListener;
  readonly tls?: https.ServerOptions;
  /** Time to read the headers of a request. */
  readonly headersTimeoutMs?: number;
  /** Time for open requests to finish when stopping; after it they are cut. */
  readonly drainMs?: number;
  readonly maxHeaderBytes?: number;
  /** Idle time after which a kept-alive connection is closed. */
  readonly keepAliveMs?: number;
}

export interface RunningServer extends AsyncDisposable {
  readonly server: http.Server | https.Server;
  readonly host: string;
  readonly port: number;
  readonly url: string;
  stop(): Promise<void>;
}

const defaults = {
  headersTimeoutMs: 10_000,
  drainMs: 15_000,
  maxHeaderBytes: 32 * 1024,
  keepAliveMs: 95_000,
};

export async function startHttpServer(options: ListenOptions): Promise<RunningServer> {
  const settings = { ...defaults, ...options };
  const common = {
    headersTimeout: settings.headersTimeoutMs,
    maxHeaderSize: settings.maxHeaderBytes,
    noDelay: true,
    keepAliveTimeout: settings.keepAliveMs,
  };
  const server = options.tls
    ? https.createServer({ minVersion: "TLSv1.2", ...options.tls, ...common }, options.handler)
    : nodeHttp.createServer(common, options.handler);
  server.on("clientError", refuseBadRequest);
  await listen(server, settings);
  const { port } = server.address() as AddressInfo;
  const stop = () => drain(server, settings.drainMs);
  const scheme = options.tls ? "https" : "http";
  return {
    server,
    host: options.host,
    port,
    url: `${scheme}://${bracketed(options.host)}:${port}`,
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

const refusals: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};

/** Not HTTP, too slow, or headers beyond the limits: say so, where Node by itself would just hang up. */
function refuseBadRequest(error: Error, socket: Socket | NodeJS.WritableStream): void {
  const status = refusals[systemCode(error) ?? ""] ?? "400 Bad Request";
  if ("destroyed" in socket && socket.destroyed) return;
  if (socket.writable) socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
  else if ("destroy" in socket) socket.destroy();
}

function listen(server: http.Server | https.Server, { name, host, port }: ListenOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: Error) => {
      const taken = systemCode(error) === "EADDRINUSE";
      const why = taken
        ? `${host}:${port} is in use by another program; stop it or choose another port`
        : error.message;
      reject(new Fault("unavailable", `${name} cannot listen: ${why}`, { cause: error }));
    });
    server.listen({ host, port }, () => {
      server.removeAllListeners("error");
      resolve();
    });
  });
}

/** Takes no new connection, closes idle ones, lets open requests finish, then cuts what is left. */
function drain(server: http.Server | https.Server, drainMs: number): Promise<void> {
  if (!server.listening) return Promise.resolve();
  return new Promise((resolve) => {
    const cut = setTimeout(() => server.closeAllConnections(), drainMs);
    // A connection whose request finishes now would otherwise be kept alive until its idle time is over.
    const sweep = setInterval(() => server.closeIdleConnections(), 25);
    server.close(() => {
      clearTimeout(cut);
      clearInterval(sweep);
      resolve();
    });
    server.closeIdleConnections();
  });
}
