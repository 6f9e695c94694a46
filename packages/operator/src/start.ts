/** The operator, without process matters: caches, controllers, and who leads. */
import { ownerSet, readText, annotation, legacyAnnotation } from "@cocoon/contract";
import { jsonEqual, type Logger, type Registry as MetricsRegistry } from "@cocoon/core";
import {
  getKey,
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
  type Predicate,
} from "@cocoon/kube/controller";
import { MachineSnapshots } from "@cocoon/machine";
import type { Registry } from "@cocoon/oci";
import { listHeld } from "./cocoonset/holders.ts";
import type { SetParts } from "./cocoonset/parts.ts";
import { DeletionJobs } from "./cocoonset/deletion-jobs.ts";
import { SetReconciler } from "./cocoonset/reconcile.ts";
import { HibernationReconciler } from "./hibernation/reconcile.ts";
import { cocoonHibernations, cocoonSets, snapshotGrants, type CustomObject } from "./kinds.ts";
import { startBridge } from "./legacy/start-bridge.ts";
import { startNetwork } from "./network/start.ts";
import { operatorMetrics } from "./metrics.ts";
import { exportPhaseGauges } from "./phase-gauges.ts";
import { serveSandboxes } from "./sandbox/serve.ts";
import { servePodSnapshots } from "./sandbox/serve-pod-snapshots.ts";
import { startSandboxes } from "./sandbox/start.ts";
import { nodeChanged, podChanged, slimNode, slimPod } from "./slim.ts";

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
  /** Serve agent-sandbox; its definitions must be installed, and upstream's controller must not run. */
  readonly agentSandbox?: boolean;
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
/** Sets that are deleted at the same time while none comes up; the workers of the queue stay free for all others. */
const deletionsAtOnce = 4;

export function startOperator(options: OperatorOptions): RunningOperator {
  const stack = new AsyncDisposableStack();
  const shared = stack.use(openCaches({ client: options.connection, log: options.log }));
  const caches = openAll(shared, options);
  stack.use(exportPhaseGauges(options.metrics, caches));
  const parts = openParts({ options, stack, caches });
  const controllers = [startSets(options, caches, parts), startHibernations(options, caches, parts)];
  if (options.legacyApi) {
    const scope = options.namespace ? { namespace: options.namespace } : {};
    const registryAddress = formatAddress(options.registry);
    const bridged = {
      caches: shared,
      scope,
      ...caches,
      parts: { ...parts, registryAddress },
      common: common(options),
    };
    controllers.push(...startBridge(bridged, stack));
  }
  const scope = options.namespace ? { namespace: options.namespace } : {};
  if (options.agentSandbox) {
    const served = { ...parts, caches: shared, podCache: caches.pods, scope, common: common(options) };
    controllers.push(...serveSandboxes(served, stack), ...servePodSnapshots(served, stack));
  }
  for (const controller of controllers) stack.use(controller);
  startNetwork(
    { caches: shared, ...caches, parts, scope, common: common(options), signal: options.signal },
    stack,
  );
  startSandboxes({ ...parts, caches: shared, scope, common: common(options) }, stack);
  return {
    controllers,
    isSynced: () => Object.values(caches).every((cache: { readonly isSynced: boolean }) => cache.isSynced),
    ready: Promise.all(controllers.map((controller) => controller.ready)).then(() => undefined),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function formatAddress({ address }: Registry): string {
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
  readonly snapshots: MachineSnapshots;
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
  const name = readTarget(object);
  return name === "" ? [] : [`${object.metadata.namespace ?? ""}/${name}`];
};

function readTarget({ spec }: CustomObject): string {
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
    nodesByMachine: caches.nodes.index(listHeld),
    snapshots: new MachineSnapshots({ registry: options.registry, limits: {} }),
    deletions: stack.use(new DeletionJobs(deletionsAtOnce)),
    signal: options.signal,
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
  const setsByNode = caches.sets.index(readNodeName);
  const setsBySource = caches.sets.index(readSourceNamespace);
  const controller = startController({
    name: "cocoonset",
    ...common(options),
    concurrency: options.concurrency?.sets ?? 4,
    watches: [
      watchObjects(caches.sets, { predicate: generationChanged }),
      watchOwned(caches.pods, { owner: cocoonSets, predicate: podConcernsSet(caches) }),
      watchMapped(caches.hibernations, {
        map: (object) =>
          ownerKeys(caches.pods.get({ namespace: object.metadata.namespace, name: readTarget(object) })),
      }),
      watchMapped(caches.nodes, {
        predicate: nodeChanged,
        map: (node) => setsByNode.get(node.metadata.name ?? "").map(getKey),
      }),
      watchMapped(caches.grants, {
        map: (grant) => setsBySource.get(grant.metadata.namespace ?? "").map(getKey),
      }),
    ],
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
  parts.deletions.onEnd = (key) => controller.enqueue(key);
  return controller;
}

/** A terminating set waits for the end of its pods, not for how they get there. */
function podConcernsSet({ sets }: OpenCaches): Predicate<Pod> {
  return (change) => {
    if (change.kind !== "updated") return true;
    const [key] = ownerKeys(change.object);
    const terminating = key && sets.get(key)?.metadata.deletionTimestamp !== undefined;
    return !terminating && podChanged(change);
  };
}

function startHibernations(options: OperatorOptions, caches: OpenCaches, parts: AllParts): Controller {
  const reconciler = new HibernationReconciler(parts);
  const findTargeting = ({ metadata }: Pod) =>
    parts.hibernationsByPod.get(`${metadata.namespace ?? ""}/${metadata.name ?? ""}`);
  return startController({
    name: "cocoonhibernation",
    ...common(options),
    concurrency: options.concurrency?.hibernations ?? 4,
    watches: [
      // Our own status writes are seen at once by the reconcile that made them.
      watchObjects(caches.hibernations, { predicate: requestChanged }),
      watchMapped(caches.pods, {
        // The index first: most pods have no CocoonHibernation.
        predicate: (change) => findTargeting(change.object).length > 0 && podChanged(change),
        map: (pod) => findTargeting(pod).map(getKey),
      }),
    ],
    reconcile: (key, context) => reconciler.reconcile(key, context),
  });
}

function common({ log, signal, metrics, resyncMs = 15_000 }: OperatorOptions) {
  return { log, signal, registry: metrics, resyncMs, maxReconcileMs: 2 * 60_000 };
}

function requestChanged(change: Parameters<typeof generationChanged>[0]): boolean {
  if (generationChanged(change) || change.kind !== "updated") return true;
  return !jsonEqual(change.old.metadata.annotations ?? {}, change.object.metadata.annotations ?? {});
}

function ownerKeys(pod: Pod | undefined): { namespace: string | undefined; name: string }[] {
  const name = pod && ownerSet(pod);
  return name ? [{ namespace: pod.metadata.namespace, name }] : [];
}

function readNodeName({ spec }: CustomObject): string[] {
  const name = (spec as { nodeName?: unknown } | undefined)?.nodeName;
  return typeof name === "string" && name !== "" ? [name] : [];
}

function readSourceNamespace({ spec }: CustomObject): string[] {
  const namespace = (spec as { agent?: { from?: { namespace?: unknown } } } | undefined)?.agent?.from
    ?.namespace;
  return typeof namespace === "string" ? [namespace] : [];
}
