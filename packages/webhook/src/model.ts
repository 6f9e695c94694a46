/** The webhook's picture of the cluster, kept current by the caches: pods, nodes, sets and reservations together. */
import type { CacheEvent, ConfigMap } from "@cocoon/kube";
import type { WebhookCaches } from "./caches.ts";
import { PendingLoads } from "./nodes/pending-loads.ts";
import type { NodeFacts } from "./nodes/node-facts.ts";
import { PlacementRules, type PinMode } from "./nodes/placement.ts";
import { PodIndex } from "./pods/pod-index.ts";
import { SetIndex } from "./sets.ts";
import type { PlanContext } from "./store/claim-plan.ts";
import { ReservationIndex } from "./store/reservation-index.ts";
import { WatchProgress } from "./store/watch-progress.ts";
import { Workloads } from "./workloads.ts";

export interface Model extends Disposable {
  readonly reserved: ReservationIndex;
  readonly pods: PodIndex;
  readonly pending: PendingLoads;
  readonly sets: SetIndex;
  readonly workloads: Workloads;
  readonly watchProgress: WatchProgress;
  readonly context: PlanContext;
}

export function buildModel(caches: WebhookCaches, { pinMode }: { readonly pinMode: PinMode }): Model {
  const pending: PendingLoads = new PendingLoads((claim) => pods.hasClaim(claim) || pods.hasDeparted(claim));
  const pods: PodIndex = new PodIndex({
    version: () => caches.pods.resourceVersion,
    arrived: (claim) => pending.remove(claim),
  });
  const reserved = new ReservationIndex(pending);
  const watchProgress = new WatchProgress();
  const sets = new SetIndex();
  const workloads = new Workloads(caches.workloads);
  const nodesByPool = caches.nodes.index(listPools);
  const placement = new PlacementRules({
    nodes: { get: (name) => caches.nodes.get({ name }), inPool: (pool) => nodesByPool.get(pool) },
    pods,
    pending,
    pinMode,
  });
  const subscriptions = [
    caches.pods.subscribe(pods.take),
    caches.sets.subscribe(sets.take),
    caches.shards.subscribe((event) => takeShard(event, reserved, watchProgress)),
  ];
  const context = { reserved, sets, pods, placement, now: () => new Date() };
  return {
    reserved,
    pods,
    pending,
    sets,
    workloads,
    watchProgress,
    context,
    [Symbol.dispose]: () => {
      for (const subscription of subscriptions) subscription[Symbol.dispose]();
    },
  };
}

function listPools({ pool }: NodeFacts): string[] {
  return pool === "" ? [] : [pool];
}

function takeShard(
  event: CacheEvent<ConfigMap>,
  reserved: ReservationIndex,
  watchProgress: WatchProgress,
): void {
  const version = BigInt(event.object.metadata.resourceVersion ?? "0");
  if (event.kind === "deleted") reserved.forget(event.object.metadata.name ?? "", version);
  else reserved.apply(event.object);
  watchProgress.advance(version);
}
