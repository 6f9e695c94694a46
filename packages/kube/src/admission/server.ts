/**
 * The admission server: HTTPS, HTTP/1.1 as the API server speaks it, several handlers on paths of one listener.
 *
 *   POST <path of a handler>   AdmissionReview in, AdmissionReview out; 200 whatever the verdict
 *   GET  /healthz, /readyz     for probes
 *
 * Anything that is not a review is answered without calling the handler: 404 unknown path, 405 method, 415 content
 * type, 413 too large, 429 too many at once, 400 undecodable. A handler that throws becomes a bare 500: then the
 * webhook's failurePolicy decides, and the reason stays in our log.
 */
import {
  messageOf,
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
import { defaultTimeLimits, type TimeLimits } from "./budget.ts";
import type { AdmissionEndpoint } from "./decide.ts";
import type { Middleware } from "./handler.ts";
import { createAdmissionMetrics } from "./metrics.ts";
import { sendText } from "./respond.ts";
import { createRouter, type Router } from "./router.ts";
import { ReviewService, type ReviewObserver } from "./review-service.ts";
import { usualWire, type ReviewWire } from "./wire.ts";

export interface AdmissionLimits {
  readonly bodyBytes: number;
  readonly depth: number;
  /** Reviews that are being answered at once; more are told to come back (429). */
  readonly inFlight: number;
  readonly connections: number;
  /** Time for a request to arrive whole. */
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
  /** By path, such as `/mutate-pod`. */
  readonly endpoints: Readonly<Record<string, AdmissionEndpoint>>;
  /** Other things on the same port, by path; they get every method. */
  readonly routes?: Readonly<Record<string, RequestListener>>;
  /** Outermost first, around every endpoint. */
  readonly middleware?: readonly Middleware[];
  /** Beyond certificates and a listener that is not stopping, which are always asked. */
  readonly ready?: ReadyCheck;
  /** What `/readyz` adds while it says yes: something is missing that requests need not wait for. */
  readonly readyNote?: () => string | undefined;
  readonly limits?: Partial<AdmissionLimits>;
  readonly time?: Partial<TimeLimits>;
  readonly registry?: Registry;
  /** Of metric names; default `admission`. */
  readonly metricPrefix?: string;
  /** Told of every review after its answer, for metrics of one's own. */
  readonly observe?: ReviewObserver;
  readonly log?: Logger;
  /** How reviews are read and written; default as every API server has it. */
  readonly wire?: ReviewWire;
  /**
   * When stopping: how long to go on answering, telling each client to close its connection, before listening ends.
   * A client that reuses a kept-alive connection just as it is closed, or connects just as listening ends, loses a
   * request; this gives it time to leave, and load balancers time to see that we are not ready. Default 3 s.
   */
  readonly lameDuckMs?: number;
  /** Time for open requests to finish after that. Default 12 s. */
  readonly drainMs?: number;
}

export interface AdmissionServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  /** Why requests should not be sent here now; undefined when they may. Fits `ReadyCheck`. */
  readiness(): Promise<string | undefined>;
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
  const readiness = () => readinessOf(options, state);
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

async function readinessOf(
  { certificates, ready }: AdmissionServerOptions,
  state: { readonly stopping: boolean },
): Promise<string | undefined> {
  if (state.stopping) return "the admission server is stopping";
  const trouble = certificates.readiness();
  if (trouble !== undefined) return trouble;
  try {
    return (await ready?.()) ?? undefined;
  } catch (error) {
    return messageOf(error);
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
      void readiness().then((trouble) =>
        sendText(response, { status: trouble === undefined ? 200 : 503, text: trouble ?? ready() }),
      );
    },
  };
}
