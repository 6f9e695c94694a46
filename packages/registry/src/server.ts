/** A registry with a lifetime: storage, services, the HTTP listener, maintenance. */
import { silentLogger, startHttpServer, type Logger, type RunningServer } from "@cocoon/core";
import { administration, readScope } from "./auth/access.ts";
import type { GcReport, GcRun } from "./gc/collector.ts";
import { dispatch, type Incoming } from "./http/dispatch.ts";
import { maintain, type MaintenanceOptions } from "./maintenance.ts";
import type { RegistryMetrics } from "./metrics.ts";
import { openServices, type ServiceOptions } from "./open-services.ts";
import { ensureReplicaAllowed } from "./replicas/sole-replica.ts";
import { runScrub } from "./scrub/run-scrub.ts";
import type { ScrubStatus } from "./scrub/scrubber.ts";
import type { Services } from "./open-services.ts";
import { openStorage, type StorageOptions } from "./storage/open-storage.ts";
import { tlsWithReload, type TlsFiles } from "./tls-reload.ts";

export interface RegistryOptions extends ServiceOptions, MaintenanceOptions {
  readonly storage: StorageOptions;
  readonly host?: string;
  readonly port?: number;
  /** Files of the certificate and key; read again when they change. Without it, plain HTTP. */
  readonly tls?: TlsFiles;
  readonly maxConnections?: number;
  readonly maxConnectionsPerAddress?: number;
  readonly log?: Logger;
}

interface TokenRequest {
  readonly name: string;
  /** `repository:<pattern>:pull,push,delete`, `registry:catalog:*`, `registry:tokens:list` or `admin`. Default: `admin`. */
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
  hasTokens(): boolean;
  collectGarbage(run: GcRun): Promise<GcReport>;
  checkContent(run: { readonly repair: boolean; readonly signal: AbortSignal }): Promise<ScrubStatus>;
  /** Throws when the storage does not work. The result is kept for some seconds. */
  checkStorage(): Promise<void>;
  /** Throws when clients cannot reach the listener. */
  checkListener(): Promise<void>;
  /** Lets open requests finish, then ends. May be repeated. */
  stop(): Promise<void>;
}

export async function startRegistry(options: RegistryOptions): Promise<RunningRegistry> {
  await using stack = new AsyncDisposableStack();
  const log = options.log ?? silentLogger;
  const stopping = new AbortController();
  const storage = stack.use(await openStorage(options.storage));
  stack.use(await ensureReplicaAllowed(storage, log));
  const services = stack.use(await openServices(storage, { ...options, log, stopping: stopping.signal }));
  const server = stack.use(await listen(services, options));
  const maintaining = maintain(services, options);
  stack.defer(async () => {
    stopping.abort();
    await maintaining;
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
    checkContent: (run) => runScrub(services, { ...run, bytesPerSecond: 0 }),
    checkStorage: () => services.storageHealth.check(),
    checkListener: () => server.checkListener({ path: "/healthz", timeoutMs: 4_000 }),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function listen(services: Services, options: RegistryOptions): Promise<RunningServer> {
  await using stack = new AsyncDisposableStack();
  const answer = (incoming: Omit<Incoming, "allowStall">) => {
    const { socket } = incoming.request;
    const allowStall = (stallMs: number) => server.setStallTimeout(socket, stallMs);
    void dispatch(services, { ...incoming, allowStall });
  };
  const { maxConnectionsPerAddress: perAddress } = options;
  const tls = options.tls && stack.use(await tlsWithReload(options.tls, services.log));
  const server = stack.use(
    await startHttpServer({
      name: "registry",
      host: options.host ?? "127.0.0.1",
      port: options.port ?? 0,
      ...(tls ? { tls: tls.options } : {}),
      answersHalfClosed: true,
      requestTimeoutMs: 0, // a large blob over a slow line takes hours; stalled ones are ended
      ...(options.maxConnections === undefined ? {} : { maxConnections: options.maxConnections }),
      ...(perAddress === undefined ? {} : { maxConnectionsPerAddress: perAddress }),
      isUnlimitedAddress: (address) => services.trustedProxies.includes(address),
      handler: (request, response) => answer({ request, response, expectsContinue: false }),
      continueHandler: (request, response) => answer({ request, response, expectsContinue: true }),
    }),
  );
  tls?.attach(server.server);
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
