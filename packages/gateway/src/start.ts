/** A whole gateway: caches, the control API, the envd API and the ports of sandboxes behind one listener. */
import { readFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { silentLogger, startHttpServer, type Logger, type RunningServer } from "@cocoon/core";
import type { KubeConnection, ObjectCache } from "@cocoon/kube";
import { openGatewayCaches, type GatewayCaches } from "./cluster/caches.ts";
import { PodAccess } from "./cluster/pod-access.ts";
import { ControlRouter } from "./control/router.ts";
import { buildSandboxRoutes } from "./control/sandbox-routes.ts";
import { buildTemplateRoutes } from "./control/template-routes.ts";
import { buildUsageRoutes } from "./control/usage-routes.ts";
import type { Access } from "./control/shapes.ts";
import { buildSnapshotRoutes } from "./control/snapshot-routes.ts";
import { EnvdRoutes } from "./envd/routes.ts";
import { ApiError, sendError, toApiError } from "./http/answer.ts";
import { PortProxy } from "./ports/proxy.ts";
import { tryReadTarget } from "./ports/target.ts";
import { Traffic } from "./ports/traffic.ts";
import { WakeGate } from "./ports/wake-gate.ts";
import { Guests } from "./sandboxes/guests.ts";
import { Lifecycle } from "./sandboxes/lifecycle.ts";
import { tryReadSandbox, type Sandbox, type SetObject } from "./sandboxes/sandbox.ts";
import { ensureSeed } from "./sandboxes/seed.ts";
import { Snapshots } from "./sandboxes/snapshots.ts";
import { SandboxStore } from "./sandboxes/store.ts";
import { Templates, type TemplateTable } from "./sandboxes/templates.ts";
import { Tokens } from "./sandboxes/tokens.ts";
import { Authenticator } from "./tenants/authenticate.ts";
import { RateLimit } from "./tenants/rate-limit.ts";
import { TenantSets } from "./tenants/tenant.ts";

export interface GatewayOptions {
  readonly client: KubeConnection;
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | undefined;
  readonly domain?: string | undefined;
  readonly templates: TemplateTable;
  readonly seedSecret: string;
  readonly limits: {
    readonly maxSandboxes: number;
    readonly maxLifeSeconds: number;
    readonly requestsPerSecond: number;
    readonly maxUploadBytes: number;
    readonly maxHeld: number;
    readonly waitMs: number;
  };
  readonly log?: Logger;
  readonly signal: AbortSignal;
}

export interface RunningGateway extends AsyncDisposable {
  readonly server: RunningServer;
  /** Rejects when the gateway can no longer be relied on. */
  readonly failed: Promise<never>;
}

/** A stream may be silent between two keepalives, which clients choose. */
const stallTimeoutMs = 600_000;

export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { client, limits, log = silentLogger, signal } = options;
  await using stack = new AsyncDisposableStack();
  const tokens = new Tokens(await ensureSeed(client, options.seedSecret, { signal }));
  const caches = stack.use(await openGatewayCaches(client, { log, signal }));
  const pods = stack.use(new PodAccess(client));
  const guests = new Guests(pods, tokens);
  const sets = new TenantSets(client);
  const store = stack.use(new SandboxStore(caches.sandboxes, sets));
  stack.use(followSandboxes(caches.sandboxes, guests));
  const { waitMs, maxLifeSeconds } = limits;
  const snapshots = stack.use(new Snapshots({ cache: caches.snapshots, sets, waitMs, log }));
  const lifecycle = new Lifecycle({ store, sets, guests, log, waitMs, maxLifeSeconds });
  const parts: Parts = { options, caches, tokens, guests, store, snapshots, lifecycle, log };
  const server = stack.use(
    await listen(options, { router: buildRouter(parts), traffic: buildTraffic(parts) }),
  );
  const owned = stack.move();
  return { server, failed: caches.failed, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

interface Parts {
  readonly options: GatewayOptions;
  readonly caches: GatewayCaches;
  readonly tokens: Tokens;
  readonly guests: Guests;
  readonly store: SandboxStore;
  readonly snapshots: Snapshots;
  readonly lifecycle: Lifecycle;
  readonly log: Logger;
}

function buildRouter({
  options,
  caches,
  tokens,
  guests,
  store,
  snapshots,
  lifecycle,
  log,
}: Parts): ControlRouter {
  const { client, limits, domain } = options;
  const { requestsPerSecond: perSecond, maxSandboxes } = limits;
  const templates = new Templates(options.templates);
  const access = (sandbox: Sandbox): Access => ({
    envdAccessToken: sandbox.spec.secure ? tokens.compute("envd", sandbox) : undefined,
    trafficAccessToken: sandbox.spec.publicTraffic ? undefined : tokens.compute("traffic", sandbox),
    domain,
  });
  return new ControlRouter({
    authenticator: new Authenticator(client, caches.keys),
    limit: new RateLimit({ perSecond, burst: 2 * perSecond }),
    routes: {
      ...buildSandboxRoutes({ store, lifecycle, templates, snapshots, access, maxSandboxes }),
      ...buildSnapshotRoutes({ store, lifecycle, snapshots, access }),
      ...buildTemplateRoutes({ templates }),
      ...buildUsageRoutes({ store, guests, client }),
    },
    log,
  });
}

function buildTraffic({ options, tokens, guests, store, lifecycle, log }: Parts): Traffic {
  const { maxUploadBytes, maxHeld, waitMs } = options.limits;
  const gate = new WakeGate({
    maxHeld,
    holdMs: waitMs,
    wake: (sandbox, call) => lifecycle.wake(sandbox, call),
  });
  const envd = new EnvdRoutes({ guests, tokens, maxUploadBytes, now: () => new Date() });
  return new Traffic({ store, guests, tokens, gate, envd, proxy: new PortProxy(guests), log });
}

/** A sandbox that is gone or asleep has no streams. */
function followSandboxes(sets: ObjectCache<SetObject>, guests: Guests): Disposable {
  return sets.subscribe((event) => {
    if (!("object" in event)) return;
    const { namespace = "", name: id = "" } = event.object.metadata;
    const sandbox = event.kind === "deleted" ? undefined : tryReadSandbox(event.object, new Date());
    if (sandbox?.state !== "running") guests.cut({ namespace, id });
  });
}

interface Handlers {
  readonly router: ControlRouter;
  readonly traffic: Traffic;
}

async function listen(
  { listen: address, tls }: GatewayOptions,
  { router, traffic }: Handlers,
): Promise<RunningServer> {
  const server = await startHttpServer({
    name: "gateway",
    ...address,
    ...(tls ? { tls: { cert: await readFile(tls.certFile), key: await readFile(tls.keyFile) } } : {}),
    requestTimeoutMs: 0,
    stallTimeoutMs,
    handler: (request, response) => void answer(request, response, { router, traffic }),
  });
  server.server.on("upgrade", (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    socket.on("error", () => socket.destroy());
    try {
      const target = tryReadTarget(request);
      if (target) {
        void traffic.upgrade(request, { socket, head }, target);
        return;
      }
    } catch {
      // Below: there is nothing to upgrade to.
    }
    socket.end("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
  });
  return server;
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { router, traffic }: Handlers,
): Promise<void> {
  try {
    const target = tryReadTarget(request);
    if (target) return await traffic.serve(request, response, target);
    if (request.url === "/health" && request.method === "GET") {
      response.writeHead(200, { "content-type": "text/plain", "content-length": "2" }).end("ok");
      return;
    }
    await router.serve(request, response);
  } catch (error) {
    sendError(response, error instanceof ApiError ? error : toApiError(error));
  }
}
