/** A whole gateway: caches, the control API, the envd API and the ports of sandboxes behind one listener. */
import { silentLogger, type Logger, type RunningServer } from "@cocoon/core";
import type { KubeConnection, ObjectCache } from "@cocoon/kube";
import type { Registry } from "@cocoon/oci";
import { openGatewayCaches } from "./cluster/caches.ts";
import { PodAccess } from "./cluster/pod-access.ts";
import { buildBuildRoutes } from "./control/build-routes.ts";
import { buildNetworkRoutes } from "./control/network-routes.ts";
import { ControlRouter } from "./control/router.ts";
import { buildSandboxRoutes } from "./control/sandbox-routes.ts";
import { buildTagRoutes } from "./control/tag-routes.ts";
import { buildTemplateRoutes } from "./control/template-routes.ts";
import { buildUsageRoutes } from "./control/usage-routes.ts";
import type { Access } from "./control/shapes.ts";
import { buildSnapshotRoutes } from "./control/snapshot-routes.ts";
import { EnvdRoutes } from "./envd/routes.ts";
import { listen } from "./listen.ts";
import { MachineAccess } from "./ports/machine-access.ts";
import { MachineAdmission } from "./ports/machine-admission.ts";
import { PortLinks } from "./ports/port-links.ts";
import { PortPasses } from "./ports/port-pass.ts";
import { PortProxy } from "./ports/proxy.ts";
import { SandboxAdmission } from "./ports/sandbox-admission.ts";
import { Traffic } from "./ports/traffic.ts";
import { Visitors } from "./ports/visitors.ts";
import { WakeGate } from "./ports/wake-gate.ts";
import { Egress } from "./sandboxes/egress.ts";
import { Guests } from "./sandboxes/guests.ts";
import { Lifecycle } from "./sandboxes/lifecycle.ts";
import { tryReadSandbox, type Sandbox, type SetObject } from "./sandboxes/sandbox.ts";
import { ensureSeed } from "./sandboxes/seed.ts";
import { Snapshots } from "./sandboxes/snapshots.ts";
import { SandboxStore } from "./sandboxes/store.ts";
import { Templates, type TemplateTable } from "./sandboxes/templates.ts";
import { Tokens } from "./sandboxes/tokens.ts";
import { WarmPool } from "./sandboxes/warm-pool.ts";
import { BuildFiles } from "./templates/build-files.ts";
import { archiveRepository } from "./templates/file-archives.ts";
import { BuildRecords } from "./templates/build-records.ts";
import { TemplateBuilder } from "./templates/template-builder.ts";
import { Authenticator } from "./tenants/authenticate.ts";
import { RateLimit } from "./tenants/rate-limit.ts";
import { TenantSets } from "./tenants/tenant.ts";

export interface GatewayOptions {
  readonly client: KubeConnection;
  /** Keeps the files of COPY steps; without it these are refused. */
  readonly registry?: Registry | undefined;
  readonly listen: { readonly host: string; readonly port: number };
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | undefined;
  readonly domain?: string | undefined;
  readonly templates: TemplateTable;
  readonly seedSecret: string;
  readonly limits: {
    readonly warmPool: number;
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

export async function startGateway(options: GatewayOptions): Promise<RunningGateway> {
  const { client, limits, log = silentLogger, signal } = options;
  await using stack = new AsyncDisposableStack();
  const seed = await ensureSeed(client, options.seedSecret, { signal });
  const tokens = new Tokens(seed);
  const repository = options.registry?.repository(archiveRepository);
  const files = stack.use(new BuildFiles({ seed, maxBytes: limits.maxUploadBytes, repository, log }));
  const caches = stack.use(await openGatewayCaches(client, { log, signal }));
  const pods = stack.use(new PodAccess(client));
  const guests = new Guests(pods, tokens);
  const authenticator = new Authenticator(client, caches.keys);
  const sets = new TenantSets(client, authenticator.rights);
  const store = stack.use(new SandboxStore(caches.sandboxes, sets));
  stack.use(followSandboxes(caches.sandboxes, guests));
  const { waitMs, maxLifeSeconds } = limits;
  const egress = new Egress(client);
  const snapshots = stack.use(new Snapshots({ cache: caches.snapshots, sets, egress, waitMs, log }));
  const lifecycle = new Lifecycle({ store, sets, client, guests, egress, log, waitMs, maxLifeSeconds });
  const pool = stack.use(
    new WarmPool({
      cache: caches.pool,
      sets,
      lifecycle,
      prepare: (sandbox, call) => guests.prepare(sandbox, call),
      size: limits.warmPool,
      waitMs: 4 * waitMs,
      log,
    }),
  );
  const passes = new PortPasses(seed);
  const visitors = new Visitors(authenticator, passes);
  const parts: Parts = {
    options,
    pool,
    files,
    authenticator,
    visitors,
    pods,
    tokens,
    guests,
    store,
    snapshots,
    lifecycle,
    sets,
    egress,
    log,
  };
  const { domain } = options;
  const handlers = {
    files,
    router: buildRouter(parts),
    traffic: buildTraffic(parts),
    links: new PortLinks(visitors, passes),
    domain,
  };
  const server = stack.use(await listen(options, handlers));
  const owned = stack.move();
  return { server, failed: caches.failed, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

interface Parts {
  readonly options: GatewayOptions;
  readonly authenticator: Authenticator;
  readonly visitors: Visitors;
  readonly pods: PodAccess;
  readonly tokens: Tokens;
  readonly guests: Guests;
  readonly store: SandboxStore;
  readonly snapshots: Snapshots;
  readonly lifecycle: Lifecycle;
  readonly sets: TenantSets;
  readonly egress: Egress;
  readonly pool: WarmPool;
  readonly files: BuildFiles;
  readonly log: Logger;
}

function buildRouter({
  options,
  authenticator,
  tokens,
  guests,
  store,
  snapshots,
  lifecycle,
  sets,
  egress,
  pool,
  files,
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
  const records = new BuildRecords(client);
  const builder = new TemplateBuilder({ templates, snapshots, records, files, guests, log });
  return new ControlRouter({
    authenticator,
    limit: new RateLimit({ perSecond, burst: 2 * perSecond }),
    routes: {
      ...buildSandboxRoutes({ store, lifecycle, egress, pool, templates, snapshots, access, maxSandboxes }),
      ...buildSnapshotRoutes({ store, lifecycle, snapshots, access }),
      ...buildNetworkRoutes({ store, sets, egress }),
      ...buildTagRoutes({ snapshots }),
      ...buildTemplateRoutes({ templates, snapshots }),
      ...buildBuildRoutes({ records, files, builder }),
      ...buildUsageRoutes({ store, guests, client }),
    },
    log,
  });
}

function buildTraffic({
  options,
  authenticator,
  visitors,
  pods,
  tokens,
  guests,
  store,
  lifecycle,
  log,
}: Parts): Traffic {
  const { maxUploadBytes, maxHeld, waitMs: holdMs } = options.limits;
  const limits = { maxHeld, holdMs };
  const gate = new WakeGate<Sandbox>(limits);
  const machines = new MachineAccess({ client: options.client, pods });
  return new Traffic({
    sandboxes: new SandboxAdmission({ store, guests, tokens, lifecycle, gate }),
    machines: new MachineAdmission({ machines, authenticator, visitors, gate: new WakeGate<void>(limits) }),
    envd: new EnvdRoutes({ guests, tokens, maxUploadBytes, now: () => new Date() }),
    proxy: new PortProxy(),
    log,
  });
}

/** A sandbox that is gone or asleep has no streams, nor has one whose node is lost. */
function followSandboxes(sets: ObjectCache<SetObject>, guests: Guests): Disposable {
  return sets.subscribe((event) => {
    if (!("object" in event)) return;
    const { namespace = "", name: id = "" } = event.object.metadata;
    const sandbox = event.kind === "deleted" ? undefined : tryReadSandbox(event.object, new Date());
    if (sandbox?.state !== "running") guests.cut({ namespace, id });
    else if (!sandbox.isReady) void guests.cutUnlessAlive(sandbox);
  });
}
