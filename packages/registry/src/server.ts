/** A registry with a lifetime: storage, services, the HTTP listener, periodic garbage collection. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import {
  messageOf,
  silentLogger,
  sleep,
  startHttpServer,
  type Logger,
  type RunningServer,
} from "@cocoon/core";
import { administration, readScope } from "./auth/access.ts";
import type { GcReport, GcRun } from "./gc/collector.ts";
import { acceptForDirectReceipt } from "./http/direct-receipt.ts";
import { dispatch } from "./http/dispatch.ts";
import type { RegistryMetrics } from "./metrics.ts";
import { openServices, type ServiceOptions } from "./open-services.ts";
import type { Services } from "./services.ts";
import { openStorage, type StorageOptions } from "./storage/open-storage.ts";
import { tlsWithReload, type TlsFiles } from "./tls-reload.ts";

export interface RegistryOptions extends ServiceOptions {
  readonly storage: StorageOptions;
  /** Default 127.0.0.1. */
  readonly host?: string;
  /** Default 0: any free port. */
  readonly port?: number;
  /** Files of the certificate and key; read again when they change. Without it, plain HTTP. */
  readonly tls?: TlsFiles;
  readonly maxConnections?: number;
  /** Time between runs of garbage collection; 0, the default, for none but on request. */
  readonly gcIntervalMs?: number;
  readonly log?: Logger;
}

export interface TokenRequest {
  readonly name: string;
  /** `repository:<pattern>:pull,push,delete`, `registry:catalog:*` or `admin`. Default: `admin`. */
  readonly scopes?: readonly string[];
  /** Default: for ever. */
  readonly lifetimeMs?: number;
}

export interface RunningRegistry extends AsyncDisposable {
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly metrics: RegistryMetrics;
  /** Makes a token and returns its text, which is kept nowhere else. */
  createToken(request: TokenRequest): Promise<string>;
  /** Whether anybody could log in by a stored token. */
  hasTokens(): boolean;
  collectGarbage(run: GcRun): Promise<GcReport>;
  /** Throws when the storage is not fit to serve. */
  check(): Promise<void>;
  /** Lets open requests finish, then ends. May be repeated. */
  stop(): Promise<void>;
}

export async function startRegistry(options: RegistryOptions): Promise<RunningRegistry> {
  await using stack = new AsyncDisposableStack();
  const log = options.log ?? silentLogger;
  const stopping = new AbortController();
  const storage = stack.use(await openStorage(options.storage));
  const services = stack.use(await openServices(storage, { ...options, log, stopping: stopping.signal }));
  const server = stack.use(await listen(services, options));
  const collecting = collectPeriodically(services, options.gcIntervalMs ?? 0);
  stack.defer(async () => {
    stopping.abort();
    await collecting;
  });
  log.info({ url: server.url, storage: storage.description }, "registry serves");
  const running = stack.move();
  const stop = () => running.disposeAsync();
  return {
    url: server.url,
    host: server.host,
    port: server.port,
    metrics: services.metrics,
    createToken: (request) => createToken(services, request),
    hasTokens: () => services.tokens.list().length > 0,
    collectGarbage: (run) => services.collector.run(run),
    check: () => storage.check(),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function listen(services: Services, options: RegistryOptions): Promise<RunningServer> {
  await using stack = new AsyncDisposableStack();
  const tls = options.tls && stack.use(await tlsWithReload(options.tls, services.log));
  const server = stack.use(
    await startHttpServer({
      name: "registry",
      host: options.host ?? "127.0.0.1",
      port: options.port ?? 0,
      ...(tls ? { tls: tls.options } : {}),
      handler: (request, response) => {
        void dispatch(services, { request, response, expectsContinue: false });
      },
    }),
  );
  tls?.attach(server.server);
  server.server.requestTimeout = 0; // a large blob over a thin line takes hours
  server.server.maxConnections = options.maxConnections ?? 4_096;
  // A client whose machine vanished never says goodbye.
  server.server.on("connection", (socket: Socket) => void socket.setKeepAlive(true, 60_000));
  server.server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    void dispatch(services, { request, response, expectsContinue: true });
  });
  if (!tls) acceptForDirectReceipt(server.server);
  const resources = stack.move();
  const stop = () => resources.disposeAsync();
  return { ...server, stop, [Symbol.asyncDispose]: stop };
}

async function createToken(services: Services, { name, scopes, lifetimeMs }: TokenRequest): Promise<string> {
  const created = await services.tokens.create({
    name,
    scopes: scopes?.map(readScope) ?? administration,
    createdBy: "",
    lifetimeMs,
  });
  return created.text;
}

async function collectPeriodically(
  { collector, metrics, log, stopping }: Services,
  intervalMs: number,
): Promise<void> {
  if (intervalMs === 0) return;
  while (await sleep(intervalMs * (0.9 + 0.2 * Math.random()), { signal: stopping })) {
    try {
      const report = await collector.run({ signal: stopping });
      metrics.noteCollection(report);
      log.info({ ...report }, "garbage collected");
    } catch (error) {
      if (stopping.aborted) return;
      metrics.noteCollection(undefined);
      log.error({ error: messageOf(error) }, "garbage collection failed");
    }
  }
}
