/** A whole webhook: what it knows, what it answers, what it tidies up. */
import { createRegistry, silentLogger, type Logger, type Registry } from "@cocoon/core";
import type { KubeClient, KubeConnection } from "@cocoon/kube";
import { startAdmissionServer, type AdmissionServer } from "@cocoon/kube/admission";
import type { ServingCertificates } from "@cocoon/kube/certificates";
import { startEventRecorder, type EventRecorder } from "@cocoon/kube/controller";
import { createEndpoints } from "./endpoints.ts";
import { openWebhookCaches, type WebhookCaches } from "./caches.ts";
import { createWebhookMetrics, type WebhookMetrics } from "./metrics.ts";
import { buildModel, type Model } from "./model.ts";
import type { PinMode } from "./nodes/placement.ts";
import type { Graces } from "./reaper/changes.ts";
import { runReaper } from "./reaper/reaper.ts";
import type { Snapshots } from "./snapshots.ts";
import { Reservations } from "./store/reservations.ts";
import { ShardWrites } from "./store/shard-writes.ts";

export interface WebhookRules {
  readonly mode: "sticky" | "gate";
  readonly creators: readonly string[];
  readonly pin: PinMode;
  readonly onFailure: "refuse" | "admit";
  readonly keepOff: boolean;
  readonly guardDeletion: boolean;
}

interface ReaperTimes extends Graces {
  readonly intervalMs: number;
}

export interface WebhookOptions {
  readonly client: KubeClient & KubeConnection;
  readonly certificates: ServingCertificates;
  readonly listen: { readonly host: string; readonly port: number };
  readonly rules: WebhookRules;
  readonly reaper: ReaperTimes;
  readonly snapshots: Snapshots;
  readonly replica: string;
  readonly lameDuckMs?: number;
  readonly metrics?: Registry;
  readonly log?: Logger;
  readonly signal: AbortSignal;
}

export interface RunningWebhook extends AsyncDisposable {
  readonly server: AdmissionServer;
  /** Rejects when the webhook can no longer be relied on. */
  readonly failed: Promise<never>;
}

export interface Parts {
  readonly options: WebhookOptions;
  readonly caches: WebhookCaches;
  readonly model: Model;
  readonly reservations: Reservations;
  readonly metrics: WebhookMetrics;
  readonly events: EventRecorder;
  readonly log: Logger;
}

export async function startWebhook(options: WebhookOptions): Promise<RunningWebhook> {
  const { client, rules, log = silentLogger, signal } = options;
  await using stack = new AsyncDisposableStack();
  const registry = options.metrics ?? createRegistry("cocoon-webhook");
  const caches = stack.use(await openWebhookCaches(client, { log, signal }));
  const model = stack.use(buildModel(caches, { pinMode: rules.pin }));
  const metrics = createWebhookMetrics(registry, () => model.reserved.size);
  const events = stack.use(
    startEventRecorder({ client, log, component: "cocoon-webhook", host: options.replica, registry }),
  );
  const stopping = new AbortController();
  stack.defer(() => stopping.abort());
  const writes = new ShardWrites({
    client,
    reserved: model.reserved,
    count: () => metrics.storeWrites.inc(),
    signal: stopping.signal,
  });
  const reservations = new Reservations({
    client,
    context: model.context,
    writes,
    watchProgress: model.watchProgress,
    isInRegistry: (vmName, call) => options.snapshots.isHibernated(vmName, call),
    log,
    signal: stopping.signal,
  });
  const parts: Parts = { options, caches, model, reservations, metrics, events, log };
  if (rules.mode === "sticky") stack.use(startReaper(parts, writes, registry));
  const server = stack.use(
    await startAdmissionServer({
      ...options.listen,
      certificates: options.certificates,
      endpoints: createEndpoints(parts),
      ready: () => reservations.problem,
      registry,
      metricPrefix: "cocoon_webhook",
      ...(options.lameDuckMs === undefined ? {} : { lameDuckMs: options.lameDuckMs }),
      log,
    }),
  );
  const owned = stack.move();
  return { server, failed: caches.failed, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

function startReaper(parts: Parts, writes: ShardWrites, registry: Registry): AsyncDisposable {
  const { options, caches, model, reservations, metrics, log } = parts;
  const stop = new AbortController();
  const running = runReaper(
    {
      ...options.reaper,
      client: options.client,
      model,
      reservations,
      writes,
      findNodePool: (name) => caches.nodes.get({ name })?.pool ?? "",
      releaseSnapshot: (machine, call) => options.snapshots.release(machine, call),
      released: ({ pool }) => metrics.releases.inc({ pool }),
      duplicates: (count) => metrics.duplicates.set(count),
      registry,
      replica: options.replica,
      log,
    },
    { signal: stop.signal },
  );
  return {
    [Symbol.asyncDispose]: async () => {
      stop.abort();
      await running;
    },
  };
}
