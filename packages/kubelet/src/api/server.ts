/** The kubelet's HTTPS API: authenticated and authorised requests, streams over SPDY/3.1 and WebSocket. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { ServerOptions } from "node:https";
import { Socket } from "node:net";
import { Server as TlsServer } from "node:tls";
import type { Duplex } from "node:stream";
import {
  Fault,
  isFault,
  getErrorMessage,
  startHttpServer,
  toFault,
  type Logger,
  type Registry,
  type RunningServer,
} from "@cocoon/core";
import type { KubeObject } from "@cocoon/kube";
import { followCertificates, type ServingCertificates } from "@cocoon/kube/certificates";
import type { PodProvider } from "../provider.ts";
import { servePortForward } from "../stream/port-forward.ts";
import { readCommandQuery, serveCommand, type CommandRunner } from "../stream/remote-command.ts";
import { acceptSpdyCommand, defaultStreamTimes, type StreamTimes } from "../stream/spdy-command.ts";
import { isWebSocket, refuseUpgrade, type UpgradeRequest } from "../stream/upgrade.ts";
import { acceptWebSocketCommand } from "../stream/websocket-command.ts";
import type { Authenticator, Authorizer } from "./access.ts";
import { serveLogs } from "./logs.ts";
import { resourceMetricsText } from "./resource-metrics.ts";
import { findRoute, type Route } from "./routes.ts";

export interface KubeletApiOptions {
  readonly host: string;
  readonly port: number;
  /** Serving certificate, and the CA of client certificates; clients without one may bring a token. */
  readonly tls: ServerOptions;
  /** Where the serving certificate comes from when it changes while the server runs. */
  readonly certificates?: ServingCertificates;
  readonly provider: PodProvider;
  readonly authenticate: Authenticator;
  readonly authorize: Authorizer;
  readonly assignedPods: () => readonly KubeObject[];
  readonly registry?: Registry;
  readonly configuration?: unknown;
  readonly times?: StreamTimes;
  readonly log: Logger;
}

interface Call {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly query: URLSearchParams;
}

export async function startKubeletApi(options: KubeletApiOptions): Promise<RunningServer> {
  const server = await startHttpServer({
    name: "kubelet API",
    host: options.host,
    port: options.port,
    tls: { requestCert: true, rejectUnauthorized: false, ...options.tls },
    // The API server keeps idle connections for 90 s; closing earlier would race with its next request.
    keepAliveMs: 120_000,
    handler: (request, response) => {
      void answer(options, readCall(request), response);
    },
  });
  server.server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    void answerUpgrade(options, readCall(request), { request, socket, head });
  });
  return followNewCertificates(server, options);
}

function followNewCertificates(
  server: RunningServer,
  { certificates, tls }: KubeletApiOptions,
): RunningServer {
  if (!certificates || !(server.server instanceof TlsServer)) return server;
  const following = followCertificates(server.server, {
    certificates,
    options: tls.ca === undefined ? {} : { ca: tls.ca },
  });
  const stop = async () => {
    following[Symbol.dispose]();
    await server.stop();
  };
  return { ...server, stop, [Symbol.asyncDispose]: stop };
}

function readCall(request: IncomingMessage): Call {
  const [path = "/", query = ""] = (request.url ?? "/").split("?", 2);
  return { request, path, query: new URLSearchParams(query) };
}

async function answer(options: KubeletApiOptions, call: Call, response: ServerResponse): Promise<void> {
  try {
    await admit(options, call);
    await serve(options, call, response);
  } catch (error) {
    const fault = report(options.log, call, error);
    if (response.headersSent) response.destroy();
    else
      response
        .writeHead(fault.traits.status, { "content-type": "text/plain; charset=utf-8" })
        .end(fault.message);
  }
}

async function answerUpgrade(options: KubeletApiOptions, call: Call, upgrade: UpgradeRequest): Promise<void> {
  try {
    await admit(options, call);
    await serveStream(options, call, upgrade);
  } catch (error) {
    refuseUpgrade(upgrade, report(options.log, call, error));
  }
}

function report(log: Logger, { path, request }: Call, error: unknown): Fault {
  const fault = toFault(error);
  const level = fault.traits.status >= 500 && fault.code !== "notSupported" ? "warn" : "debug";
  log[level](
    { path, method: request.method, code: fault.code, error: getErrorMessage(error) },
    "request failed",
  );
  return isFault(error) ? fault : new Fault("internal", "internal error; see the kubelet's log");
}

async function admit(options: KubeletApiOptions, { request, path }: Call): Promise<void> {
  const user = await options.authenticate(request);
  if (!user) throw new Fault("unauthorized", "Unauthorized");
  const reason = await options.authorize(user, { method: request.method ?? "GET", path });
  if (reason !== undefined) throw new Fault("forbidden", reason);
}

async function serve(options: KubeletApiOptions, call: Call, response: ServerResponse): Promise<void> {
  const route = findRoute(call.path);
  if (!route) throw new Fault("notFound", "404 request not found");
  if (route.kind === "exec" || route.kind === "attach" || route.kind === "portForward") {
    throw new Fault("badRequest", "Upgrade request required");
  }
  if (call.request.method !== "GET" && call.request.method !== "HEAD")
    throw new Fault("methodNotAllowed", "only GET is served here");
  if (route.kind === "logs")
    return serveLogs({ provider: options.provider, target: route.target, query: call.query, response });
  const [contentType, body] = await document(options, route);
  response.writeHead(200, { "content-type": contentType }).end(body);
}

const json = "application/json";
const prometheus = "text/plain; version=0.0.4; charset=utf-8";

async function document(options: KubeletApiOptions, route: Route): Promise<readonly [string, string]> {
  switch (route.kind) {
    case "healthz":
      return ["text/plain; charset=utf-8", "ok"];
    case "pods":
      return [json, podList(options.assignedPods())];
    case "runningPods":
      return [json, podList(await options.provider.getPods())];
    case "stats":
      return [json, JSON.stringify(await stats(options.provider))];
    case "resourceMetrics":
    case "cadvisorMetrics":
      return [prometheus, resourceMetricsText(await stats(options.provider))];
    case "metrics":
      return [prometheus, (await options.registry?.metrics()) ?? ""];
    case "configz":
      return [json, JSON.stringify({ kubeletconfig: options.configuration ?? {} })];
    default:
      throw new Fault("notFound", "404 request not found");
  }
}

function podList(items: readonly KubeObject[]): string {
  return JSON.stringify({ kind: "PodList", apiVersion: "v1", metadata: {}, items });
}

async function stats(provider: PodProvider): ReturnType<NonNullable<PodProvider["stats"]>> {
  if (!provider.stats) throw new Fault("notSupported", "this node measures nothing");
  return provider.stats({ signal: AbortSignal.timeout(30_000) });
}

async function serveStream(options: KubeletApiOptions, call: Call, upgrade: UpgradeRequest): Promise<void> {
  const route = findRoute(call.path);
  const { provider, log, times = defaultStreamTimes } = options;
  if (!route) throw new Fault("notFound", "404 request not found");
  if (upgrade.socket instanceof Socket) upgrade.socket.setTimeout(0);
  if (route.kind === "portForward") {
    const { pod } = route;
    if (!provider.portForward) throw new Fault("notSupported", "this node forwards no ports");
    const connect = provider.portForward.bind(provider);
    await servePortForward(upgrade, {
      times,
      connect: (port, { signal }) => connect(pod, port, { signal }),
      onError: (error, port) =>
        log.debug({ path: call.path, port, error: getErrorMessage(error) }, "forwarded connection failed"),
    });
    return;
  }
  const run = runnerFor(provider, route, call.query);
  const query = readCommandQuery(call.query);
  const accept = isWebSocket(upgrade.request) ? acceptWebSocketCommand : acceptSpdyCommand;
  const transport = await accept(upgrade, query, times);
  if (!transport) return;
  const end = await serveCommand(transport, run);
  if (end.kind === "failed") log.debug({ path: call.path, error: end.message }, "command failed");
}

/** Validates before any side effect: kubectl repeats a refused WebSocket upgrade over SPDY. */
function runnerFor(provider: PodProvider, route: Route, query: URLSearchParams): CommandRunner {
  if (route.kind === "exec" && provider.exec) {
    const exec = provider.exec.bind(provider);
    const command = query.getAll("command");
    if (command.length === 0) throw new Fault("badRequest", "you must specify at least 1 command");
    return (io) => exec(route.target, command, io);
  }
  if (route.kind === "attach" && provider.attach) {
    const attach = provider.attach.bind(provider);
    return (io) => attach(route.target, io);
  }
  if (route.kind === "exec" || route.kind === "attach")
    throw new Fault("notSupported", `this node has no ${route.kind}`);
  throw new Fault("badRequest", "this path does not take an upgrade");
}
