/** The webhook's picture of the cluster, kept current by the caches: pods, nodes, sets and reservations together. */
import type { CacheEvent, ConfigMap } from "@cocoon/kube";
import type { WebhookCaches } from "./caches.ts";
import { PendingLoads } from "./nodes/pending-loads.ts";
import type { NodeFacts } from "./nodes/node-facts.ts";
import { PlacementRules, type PinMode } from "./nodes/placement.ts";
import { PodIndex } from "./pods/pod-index.ts";
import { SetIndex } from "./sets.ts";
import type { PlanContext } from "./store/claim-plan.ts";
import { Ledger } from "./store/ledger.ts";
import { Witness } from "./store/witness.ts";
import { Workloads } from "./workloads.ts";

export interface Model extends Disposable {
  readonly ledger: Ledger;
  readonly pods: PodIndex;
  readonly pending: PendingLoads;
  readonly sets: SetIndex;
  readonly workloads: Workloads;
  readonly witness: Witness;
  readonly context: PlanContext;
}

export function buildModel(caches: WebhookCaches, { pinMode }: { readonly pinMode: PinMode }): Model {
  const pending: PendingLoads = new PendingLoads((claim) => pods.hasClaim(claim) || pods.hasDeparted(claim));
  const pods: PodIndex = new PodIndex({
    version: () => caches.pods.resourceVersion,
    arrived: (claim) => pending.remove(claim),
  });
  const ledger = new Ledger(pending);
  const witness = new Witness();
  const sets = new SetIndex();
  const workloads = new Workloads(caches.workloads);
  const nodesByPool = caches.nodes.index(poolsOf);
  const placement = new PlacementRules({
    nodes: { get: (name) => caches.nodes.get({ name }), inPool: (pool) => nodesByPool.get(pool) },
    pods,
    pending,
    pinMode,
  });
  const subscriptions = [
    caches.pods.subscribe(pods.take),
    caches.sets.subscribe(sets.take),
    caches.shards.subscribe((event) => takeShard(event, ledger, witness)),
  ];
  const context = { ledger, sets, pods, placement, now: () => new Date() };
  return {
    ledger,
    pods,
    pending,
    sets,
    workloads,
    witness,
    context,
    [Symbol.dispose]: () => {
      for (const subscription of subscriptions) subscription[Symbol.dispose]();
    },
  };
}

function poolsOf({ pool }: NodeFacts): string[] {
  return pool === "" ? [] : [pool];
}

function takeShard(event: CacheEvent<ConfigMap>, ledger: Ledger, witness: Witness): void {
  const version = BigInt(event.object.metadata.resourceVersion ?? "0");
  if (event.kind === "deleted") ledger.forget(event.object.metadata.name ?? "", version);
  else ledger.apply(event.object);
  witness.advance(version);
}
