/**
 * An HTTP(S) server with a lifetime: listens, drains, ends. What it answers is up to its handler. Whatever clients do, a
 * connection is bounded: in time until its request is complete, in time without progress, in number per address; and the
 * server stops within its grace period.
 */
import type http from "node:http";
import https from "node:https";
import type { AddressInfo, Socket } from "node:net";
import { Fault, systemCode } from "./fault.ts";
import { HttpConnections } from "./http-connections.ts";
import { nodeHttp } from "./node-http.ts";
import type { IncomingMessage } from "node:http";

export interface ListenOptions {
  readonly name: string;
  readonly host: string;
  /** 0 = any free port. */
  readonly port: number;
  readonly handler: http.RequestListener;
  /** Gets requests with `Expect: 100-continue`; without it they get 100 Continue at once. */
  readonly continueHandler?: http.RequestListener;
  readonly tls?: https.ServerOptions;
  /** Time for the TLS handshake, and then for the headers of a request. */
  readonly headersTimeoutMs?: number;
  /** Time for a whole request, body included; 0 for no limit but the stall time. */
  readonly requestTimeoutMs?: number;
  /** Time without progress after which a request body or an answer ends its connection. */
  readonly stallTimeoutMs?: number;
  /** Time for open requests to finish when stopping; after it their connections are closed. */
  readonly drainMs?: number;
  readonly maxHeaderBytes?: number;
  /** Idle time after which a kept-alive connection is closed. */
  readonly keepAliveMs?: number;
  readonly maxConnections?: number;
  readonly maxConnectionsPerAddress?: number;
  /**
   * Answers clients that close their side after the request. Without it such a client counts as gone, and its request is
   * aborted: right where a request is work that only this client waits for, as a review, a watch or an exec.
   */
  readonly answersHalfClosed?: boolean;
  /** Addresses without that limit. */
  readonly isUnlimitedAddress?: (address: string) => boolean;
}

export interface RunningServer extends AsyncDisposable {
  readonly server: http.Server | https.Server;
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Connections that are open now. */
  connections(): number;
  /** Replaces the stall timeout of one connection. */
  setStallTimeout(socket: Socket, stallTimeoutMs: number): void;
  /** Connects as a client does; throws when no answer comes. For health checks. */
  checkListener(options: ListenerCheck): Promise<void>;
  stop(): Promise<void>;
}

interface ListenerCheck {
  readonly path: string;
  readonly timeoutMs: number;
}

const defaults = {
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 300_000,
  stallTimeoutMs: 60_000,
  drainMs: 15_000,
  maxHeaderBytes: 32 * 1024,
  keepAliveMs: 95_000,
  maxConnections: 4_096,
  maxConnectionsPerAddress: 1_024,
  answersHalfClosed: false,
};

type Settings = ListenOptions & typeof defaults;

export async function startHttpServer(options: ListenOptions): Promise<RunningServer> {
  const settings: Settings = { ...defaults, ...options };
  const server = createServer(settings);
  server.maxConnections = settings.maxConnections;
  const connections = new HttpConnections(server, {
    maxPerAddress: settings.maxConnectionsPerAddress,
    isUnlimited: settings.isUnlimitedAddress,
    stallMs: settings.stallTimeoutMs,
  });
  const guard = (handler: http.RequestListener) => guardHandler(handler, connections);
  server.on("request", guard(settings.handler));
  if (settings.continueHandler) server.on("checkContinue", guard(settings.continueHandler));
  server.on("clientError", refuseBadRequest);
  await listen(server, settings);
  const { port } = server.address() as AddressInfo;
  const stop = () => drain(server, { connections, drainMs: settings.drainMs });
  const url = `${options.tls ? "https" : "http"}://${bracketed(options.host)}:${port}`;
  return {
    server,
    host: options.host,
    port,
    url,
    connections: () => connections.size,
    setStallTimeout: (socket, stallTimeoutMs) => connections.setStallMs(socket, stallTimeoutMs),
    checkListener: (check) => checkListener(server, settings.name, check),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function createServer(settings: Settings): http.Server | https.Server {
  const common = {
    headersTimeout: settings.headersTimeoutMs,
    maxHeaderSize: settings.maxHeaderBytes,
    noDelay: true,
    // A client whose host vanished never closes its connection.
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
    keepAliveTimeout: settings.keepAliveMs,
    allowHalfOpen: settings.answersHalfClosed,
  };
  const { tls, headersTimeoutMs: handshakeTimeout } = settings;
  const times = {
    requestTimeout: settings.requestTimeoutMs,
    connectionsCheckingInterval: Math.min(settings.headersTimeoutMs, 2_000),
  };
  const server = tls
    ? https.createServer({ minVersion: "TLSv1.2", ...times, ...tls, ...common, handshakeTimeout })
    : nodeHttp.createServer({ ...times, ...common });
  return Object.assign(server, { httpAllowHalfOpen: settings.answersHalfClosed });
}

/** In front of every handler: what is ambiguous is refused, and the exchange is followed until it ends. */
function guardHandler(handler: http.RequestListener, connections: HttpConnections): http.RequestListener {
  return (request, response) => {
    connections.track(request, response);
    const problem = findRequestProblem(request);
    if (problem === undefined) {
      request.url = readRequestTarget(request.url ?? "/");
      handler(request, response);
      return;
    }
    response.writeHead(400, { "content-type": "text/plain; charset=utf-8", connection: "close" });
    response.end(`${problem}\n`);
  };
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

const refusals: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: "431 Request Header Fields Too Large",
  ERR_HTTP_REQUEST_TIMEOUT: "408 Request Timeout",
};
/** Time for a refused client to read why. */
const refusalMs = 500;

/** Not HTTP, too slow, or headers beyond the limits. A failed handshake cannot be answered. */
function refuseBadRequest(error: Error, socket: NodeJS.WritableStream & Partial<Socket>): void {
  const code = systemCode(error) ?? "";
  if (!socket.writable || !/^(HPE_|ERR_HTTP_)/.test(code)) {
    socket.destroy?.();
    return;
  }
  socket.end(
    `HTTP/1.1 ${refusals[code] ?? "400 Bad Request"}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
  );
  // The end of our side is not the end of the connection: a client that never closes its side would keep it.
  setTimeout(() => socket.destroy?.(), refusalMs).unref();
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

/** Takes no new connection, closes idle ones, lets open requests finish, then closes what is left. */
function drain(
  server: http.Server | https.Server,
  { connections, drainMs }: { readonly connections: HttpConnections; readonly drainMs: number },
): Promise<void> {
  if (!server.listening) return Promise.resolve();
  return new Promise((resolve) => {
    const cut = setTimeout(() => {
      server.closeAllConnections();
      connections.destroyAll(); // those in a handshake or upgraded are unknown to the line above
    }, drainMs);
    // A connection whose request finishes now would otherwise be kept alive until its idle time is over.
    const sweep = setInterval(() => server.closeIdleConnections(), 25);
    server.close(() => {
      clearTimeout(cut);
      clearInterval(sweep);
      connections[Symbol.dispose]();
      resolve();
    });
    server.closeIdleConnections();
  });
}

function checkListener(
  server: http.Server | https.Server,
  name: string,
  { path, timeoutMs }: ListenerCheck,
): Promise<void> {
  const { address, port } = server.address() as AddressInfo;
  const host = address === "0.0.0.0" ? "127.0.0.1" : address === "::" ? "::1" : address;
  const options = { host, port, path, agent: false, timeout: timeoutMs, headers: { connection: "close" } };
  return new Promise((resolve, reject) => {
    const fail = (why: string) =>
      reject(new Fault("unavailable", `${name} does not answer at ${host}:${port}: ${why}`));
    const onResponse = (response: http.IncomingMessage) => {
      response.destroy();
      resolve();
    };
    // Whether the certificate is trusted is not checked: only whether the listener answers.
    const request =
      server instanceof https.Server
        ? https.get({ ...options, rejectUnauthorized: false }, onResponse)
        : nodeHttp.get(options, onResponse);
    request.on("error", (error) => fail(error.message));
    request.on("timeout", () => {
      fail(`no answer within ${timeoutMs} ms`);
      request.destroy();
    });
  });
}

/** Requests that two HTTP implementations could read differently are refused before any handler sees them. */

/** Why the request is refused with 400; undefined when it is not. */
function findRequestProblem({ rawHeaders }: IncomingMessage): string | undefined {
  let hosts = 0;
  for (let index = 0; index < rawHeaders.length; index += 2) {
    const name = rawHeaders[index]?.toLowerCase();
    if (name === "host") hosts += 1;
    else if (name === "transfer-encoding" && rawHeaders[index + 1]?.trim().toLowerCase() !== "chunked")
      return "the only supported Transfer-Encoding is chunked";
  }
  return hosts > 1 ? "the request has more than one Host header" : undefined;
}

/** The path and query of a request target in absolute form (`GET http://host/path`), as proxies send it. */
function readRequestTarget(target: string): string {
  if (!/^https?:\/\//i.test(target)) return target;
  const url = URL.parse(target);
  return url ? `${url.pathname}${url.search}` : target;
}
