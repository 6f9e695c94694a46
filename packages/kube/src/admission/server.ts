/**
 * The admission server: HTTPS, HTTP/1.1, several handlers on paths of one listener; GET /healthz and /readyz for probes.
 *
 * What is not a review is answered without calling the handler: 404, 405, 415, 413, 429, 400. A handler that throws becomes a
 * bare 500: then the webhook's failurePolicy decides, and the reason stays in our log.
 */
import {
  getErrorMessage,
  silentLogger,
  sleep,
  startHttpServer,
  type Logger,
  type ReadyCheck,
  type Registry,
  type RunningServer,
} from "@cocoon/core";
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";
import type { Server as HttpsServer } from "node:https";
import {
  followCertificates,
  tlsPair,
  type ServingCertificates,
} from "../certificates/serving-certificates.ts";
import type { AdmissionEndpoint } from "./decide.ts";
import type { Middleware } from "./request.ts";
import { createAdmissionMetrics } from "./metrics.ts";
import { sendText } from "./http.ts";
import { createRouter, defaultTimeLimits, type Router, type TimeLimits } from "./router.ts";
import { ReviewService, type ReviewObserver } from "./review-service.ts";
import { usualWire, type ReviewWire } from "./wire.ts";

interface AdmissionLimits {
  readonly bodyBytes: number;
  readonly depth: number;
  /** Reviews that are being answered at once; more are refused with 429. */
  readonly inFlight: number;
  readonly connections: number;
  readonly requestMs: number;
  readonly headersMs: number;
}

const defaultLimits: AdmissionLimits = {
  bodyBytes: 10 * 1024 * 1024,
  depth: 256,
  inFlight: 2_048,
  connections: 4_096,
  requestMs: 30_000,
  headersMs: 10_000,
};

export interface AdmissionServerOptions {
  readonly host: string;
  readonly port: number;
  readonly certificates: ServingCertificates;
  readonly endpoints: Readonly<Record<string, AdmissionEndpoint>>;
  /** Other things on the same port, by path; they get every method. */
  readonly routes?: Readonly<Record<string, RequestListener>>;
  readonly middleware?: readonly Middleware[];
  /** Beyond certificates and a listener that is not stopping, which are always checked. */
  readonly ready?: ReadyCheck;
  /** What `/readyz` adds while it is ready: something is missing that requests need not wait for. */
  readonly readyNote?: () => string | undefined;
  readonly limits?: Partial<AdmissionLimits>;
  readonly time?: Partial<TimeLimits>;
  readonly registry?: Registry;
  readonly metricPrefix?: string;
  /** Called for every review after its answer, for metrics of one's own. */
  readonly observe?: ReviewObserver;
  readonly log?: Logger;
  /** How reviews are read and written; default as every API server has it. */
  readonly wire?: ReviewWire;
  /**
   * When stopping: how long to answer with `Connection: close` before listening ends, so that clients and load balancers leave
   * without losing a request. Default 3 s.
   */
  readonly lameDuckMs?: number;
  readonly drainMs?: number;
}

export interface AdmissionServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Why requests should not be sent here now; undefined when they may. Fits `ReadyCheck`. */
  readiness(): Promise<string | undefined>;
  /** Connects as the API server does; throws when no answer comes. Fits `ReadyCheck`. */
  checkListener(): Promise<void>;
  /** Finishes what is open, takes nothing new; may be called twice. */
  stop(): Promise<void>;
}

const secureOptions = { minVersion: "TLSv1.2", ALPNProtocols: ["http/1.1"] } as const;

export async function startAdmissionServer(options: AdmissionServerOptions): Promise<AdmissionServer> {
  const limits = { ...defaultLimits, ...options.limits };
  const log = options.log ?? silentLogger;
  const state = { stopping: false };
  const service = new ReviewService({
    limits,
    metrics: createAdmissionMetrics(options.registry, options.metricPrefix ?? "admission"),
    observe: options.observe,
    log,
    wire: options.wire ?? usualWire,
    isStopping: () => state.stopping,
  });
  const readiness = () => checkReadiness(options, state);
  const router = createRouter({
    endpoints: withMiddleware(options),
    routes: { ...probes(readiness, options.readyNote), ...options.routes },
    time: { ...defaultTimeLimits, ...options.time },
  });
  const running = await startHttpServer({
    name: "admission server",
    host: options.host,
    port: options.port,
    headersTimeoutMs: limits.headersMs,
    maxConnections: limits.connections,
    maxConnectionsPerAddress: limits.connections, // all requests come from the API servers
    drainMs: options.drainMs ?? 12_000,
    handler: (request, response) => answer({ request, response }, router, service),
    tls: {
      ...secureOptions,
      ...tlsPair(options.certificates.current()),
      requestTimeout: limits.requestMs,
      connectionsCheckingInterval: Math.min(1_000, limits.headersMs),
    },
  });
  running.server.maxConnections = limits.connections;
  const following = followCertificates(running.server as HttpsServer, {
    certificates: options.certificates,
    options: secureOptions,
  });
  log.info({ url: running.url, paths: Object.keys(options.endpoints) }, "admission server listens");
  let stopped: Promise<void> | undefined;
  const stop = () => {
    state.stopping = true;
    stopped ??= stopGently(running, options.lameDuckMs ?? 3_000).finally(() => following[Symbol.dispose]());
    return stopped;
  };
  return {
    host: running.host,
    port: running.port,
    url: running.url,
    readiness,
    checkListener: () => running.checkListener({ path: "/healthz", timeoutMs: 4_000 }),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

function withMiddleware({
  endpoints,
  middleware = [],
}: AdmissionServerOptions): Record<string, AdmissionEndpoint> {
  return Object.fromEntries(
    Object.entries(endpoints).map(([path, endpoint]) => {
      const handler = middleware.reduceRight((next, wrap) => wrap(next, endpoint), endpoint.handler);
      return [path, { ...endpoint, handler }];
    }),
  );
}

async function stopGently(running: RunningServer, lameDuckMs: number): Promise<void> {
  await sleep(lameDuckMs, { signal: new AbortController().signal });
  await running.stop();
}

interface Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

function answer({ request, response }: Exchange, router: Router, service: ReviewService): void {
  const route = router.find(request.url ?? "/");
  if (!route) sendText(response, { status: 404, text: "no such path\n" });
  else if (route.kind === "listener") route.listener(request, response);
  else void service.serve(request, response, route);
}

async function checkReadiness(
  { certificates, ready }: AdmissionServerOptions,
  state: { readonly stopping: boolean },
): Promise<string | undefined> {
  if (state.stopping) return "the admission server is stopping";
  const problem = certificates.readiness();
  if (problem !== undefined) return problem;
  try {
    return (await ready?.()) ?? undefined;
  } catch (error) {
    return getErrorMessage(error);
  }
}

function probes(
  readiness: () => Promise<string | undefined>,
  note: () => string | undefined = () => undefined,
): Record<string, RequestListener> {
  const ready = () => ["ready", note()].filter((part) => part !== undefined).join("; ");
  return {
    "/healthz": (_request, response) => sendText(response, { status: 200, text: "ok" }),
    "/readyz": (_request, response) => {
      void readiness().then((problem) =>
        sendText(response, { status: problem === undefined ? 200 : 503, text: problem ?? ready() }),
      );
    },
  };
}
