/** The operator, without process matters: caches, controllers, and who leads. */
import { ownerSet, readText, annotation, legacyAnnotation } from "@cocoon/contract";
import type { Logger, Registry as MetricsRegistry } from "@cocoon/core";
import {
  nodes,
  openCaches,
  pods,
  type Caches,
  type KubeClient,
  type KubeConnection,
  type Node,
  type ObjectCache,
  type Pod,
} from "@cocoon/kube";
import {
  OwnWrites,
  startController,
  startEventRecorder,
  watchMapped,
  watchObjects,
  watchOwned,
  generationChanged,
  type Controller,
} from "@cocoon/kube/controller";
import type { Registry } from "@cocoon/oci";
import type { SetParts } from "./cocoonset/parts.ts";
import { SetReconciler } from "./cocoonset/reconcile.ts";
import { HibernationReconciler } from "./hibernation/reconcile.ts";
import { cocoonHibernations, cocoonSets, snapshotGrants, type CustomObject } from "./kinds.ts";
import { startBridge } from "./legacy/start-bridge.ts";
import { operatorMetrics } from "./metrics.ts";
import { exportPhaseGauges } from "./phase-gauges.ts";
import { nodeMatters, podMatters, slimNode, slimPod } from "./slim.ts";
import { SnapshotStore } from "./snapshot-store.ts";

export interface OperatorOptions {
  readonly connection: KubeConnection;
  /** What writes: the connection, guarded by leadership where there is one. */
  readonly client: KubeClient;
  readonly registry: Registry;
  readonly log: Logger;
  readonly metrics: MetricsRegistry;
  /** Ends everything at once. */
  readonly signal: AbortSignal;
  readonly namespace?: string | undefined;
  readonly concurrency?: { readonly sets: number; readonly hibernations: number };
  readonly resyncMs?: number;
  readonly statusDelayMs?: number;
  readonly now?: () => Date;
  /** Serve the older API; its definitions must be installed. */
  readonly legacyApi?: boolean;
}

export interface RunningOperator extends AsyncDisposable {
  /** Resolves when every cache is filled and reconciles run. */
  readonly ready: Promise<void>;
  readonly controllers: readonly Controller[];
  isSynced(): boolean;
}

interface Stage {
  readonly options: OperatorOptions;
  readonly stack: AsyncDisposableStack;
  readonly caches: OpenCaches;
}

interface OpenCaches {
  readonly sets: ObjectCache<CustomObject>;
  readonly hibernations: ObjectCache<CustomObject>;
  readonly grants: ObjectCache<CustomObject>;
  readonly pods: ObjectCache<Pod>;
  readonly nodes: ObjectCache<Node>;
}

const defaultStatusDelayMs = 2_000;

export function startOperator(options: OperatorOptions): RunningOperator {
  const stack = new AsyncDisposableStack();
  const shared = stack.use(openCaches({ client: options.connection, log: options.log }));
  const caches = openAll(shared, options);
  exportPhaseGauges(options.metrics, caches);
  const parts = openParts({ options, stack, caches });
  const controllers = [startSets(options, caches, parts), startHibernations(options, caches, parts)];
  if (options.legacyApi) {
    const scope = options.namespace ? { namespace: options.namespace } : {};
    const registryAddress = addressOf(options.registry);
    const bridged = {
      caches: shared,
      scope,
      ...caches,
      parts: { ...parts, registryAddress },
      common: common(options),
    };
    controllers.push(...startBridge(bridged, stack));
  }
  for (const controller of controllers) stack.use(controller);
  return {
    controllers,
    isSynced: () => Object.values(caches).every((cache: { readonly isSynced: boolean }) => cache.isSynced),
    ready: Promise.all(controllers.map((controller) => controller.ready)).then(() => undefined),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function addressOf({ address }: Registry): string {
  return address.prefix === "" ? address.host : `${address.host}/${address.prefix}`;
}

function openAll(shared: Caches, { namespace }: OperatorOptions): OpenCaches {
  const scope = namespace ? { namespace } : {};
  return {
    sets: shared.open(cocoonSets, scope),
    hibernations: shared.open(cocoonHibernations, scope),
    grants: shared.open(snapshotGrants, {}),
    pods: shared.open(pods, { ...scope, transform: slimPod }),
    nodes: shared.open(nodes, { transform: slimNode }),
  };
}

interface AllParts extends SetParts {
  readonly hibernations: OwnWrites<CustomObject>;
}

const byOwner = (pod: Pod): string[] =>
  (pod.metadata.ownerReferences ?? []).filter((owner) => owner.controller).map((owner) => owner.uid);
const byNode = (pod: Pod): string[] => (pod.spec?.nodeName ? [pod.spec.nodeName] : []);
const byVmName = (pod: Pod): string[] => {
  const name = readText(pod.metadata.annotations, annotation.vmName, legacyAnnotation.vmName);
  return name === "" ? [] : [name];
};
const byTarget = (object: CustomObject): string[] => {
  const name = targetOf(object);
  return name === "" ? [] : [`${object.metadata.namespace ?? ""}/${name}`];
};

function targetOf({ spec }: CustomObject): string {
  const reference = (spec as { podRef?: { name?: unknown } } | undefined)?.podRef?.name;
  return typeof reference === "string" ? reference : "";
}

function openParts({ options, stack, caches }: Stage): AllParts {
  const { client, log, metrics } = options;
  const overlay = { client, log };
  const events = stack.use(
    startEventRecorder({ client, component: "cocoon-operator", log, registry: metrics }),
  );
  return {
    client,
    sets: stack.use(new OwnWrites({ ...overlay, type: cocoonSets, source: caches.sets }).start()),
    pods: stack.use(new OwnWrites({ ...overlay, type: pods, source: caches.pods }).start()),
    hibernations: stack.use(
      new OwnWrites({ ...overlay, type: cocoonHibernations, source: caches.hibernations }).start(),
    ),
    podsByOwner: caches.pods.index(byOwner),
    podsByNode: caches.pods.index(byNode),
    podsByVmName: caches.pods.index(byVmName),
    hibernationsByPod: caches.hibernations.index(byTarget),
    grants: caches.grants,
    nodes: caches.nodes,
    snapshots: new SnapshotStore(options.registry),
    events,
    metrics: operatorMetrics(metrics),
    log,
    now: options.now ?? (() => new Date()),
    expiredAt: new Map(),
    statusDelayMs: options.statusDelayMs ?? defaultStatusDelayMs,
  };
}

function startSets(options: OperatorOptions, caches: OpenCaches, parts: SetParts): Controller {
  const reconciler = new SetReconciler(parts);
  const setsByNode = caches.sets.index(nodeNameOf);
  const setsBySource = caches.sets.index(sourceNamespaceOf);
  return startController({
    name: "cocoonset",
    ...common(options),
    concurrency: options.concurrency?.sets ?? 4,
    watches: [
      watchObjects(caches.sets, { predicate: generationChanged }),
      watchOwned(caches.pods, { owner: cocoonSets, predicate: podMatters }),
      watchMapped(caches.hibernations, {
        map: (object) =>
          ownerKeys(caches.pods.get({ namespace: object.metadata.namespace, name: targetOf(object) })),
      }),
      watchMapped(caches.nodes, {
        predicate: nodeMatters,
        map: (node) => setsByNode.get(node.metadata.name ?? "").map(keyOfObject),
      }),
      watchMapped(caches.grants, {
        map: (grant) => setsBySource.get(grant.metadata.namespace ?? "").map(keyOfObject),
      }),
    ],
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

function startHibernations(options: OperatorOptions, caches: OpenCaches, parts: AllParts): Controller {
  const reconciler = new HibernationReconciler(parts);
  return startController({
    name: "cocoonhibernation",
    ...common(options),
    concurrency: options.concurrency?.hibernations ?? 4,
    watches: [
      // Our own status writes are seen at once by the reconcile that made them.
      watchObjects(caches.hibernations, { predicate: wishChanged }),
      watchMapped(caches.pods, {
        predicate: podMatters,
        map: (pod) =>
          parts.hibernationsByPod
            .get(`${pod.metadata.namespace ?? ""}/${pod.metadata.name ?? ""}`)
            .map(keyOfObject),
      }),
    ],
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

function common({ log, signal, metrics, resyncMs = 15_000 }: OperatorOptions) {
  return { log, signal, registry: metrics, resyncMs, maxReconcileMs: 2 * 60_000 };
}

function wishChanged(change: Parameters<typeof generationChanged>[0]): boolean {
  if (generationChanged(change) || change.kind !== "updated") return true;
  return !sameTexts(change.old.metadata.annotations, change.object.metadata.annotations);
}

function sameTexts(
  left: Readonly<Record<string, string>> = {},
  right: Readonly<Record<string, string>> = {},
): boolean {
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key]);
}

function keyOfObject({ metadata }: CustomObject): { namespace: string | undefined; name: string } {
  return { namespace: metadata.namespace, name: metadata.name ?? "" };
}

function ownerKeys(pod: Pod | undefined): { namespace: string | undefined; name: string }[] {
  const name = pod && ownerSet(pod);
  return name ? [{ namespace: pod.metadata.namespace, name }] : [];
}

function nodeNameOf({ spec }: CustomObject): string[] {
  const name = (spec as { nodeName?: unknown } | undefined)?.nodeName;
  return typeof name === "string" && name !== "" ? [name] : [];
}

function sourceNamespaceOf({ spec }: CustomObject): string[] {
  const namespace = (spec as { agent?: { from?: { namespace?: unknown } } } | undefined)?.agent?.from
    ?.namespace;
  return typeof namespace === "string" ? [namespace] : [];
}
