/**
 * What the webhook knows of the cluster. The reservations are listed first and the pods after them, so that a pod which
 * a reservation names and which is not among the listed ones is gone for sure.
 */
import { systemNamespace } from "@cocoon/contract";
import type { Abortable, Logger } from "@cocoon/core";
import {
  configMaps,
  deployments,
  namespaces,
  nodes,
  openCaches,
  pods,
  replicaSets,
  resourceType,
  statefulSets,
  type ConfigMap,
  type KubeConnection,
  type KubeObject,
  type ObjectCache,
  type ResourceType,
} from "@cocoon/kube";
import { readHibernationFacts, cocoonHibernations, type HibernationFacts } from "./hibernations.ts";
import { readNodeFacts, type NodeFacts } from "./nodes/node-facts.ts";
import { readSlimPod, type SlimPod } from "./pods/slim-pod.ts";
import { cocoonSets, readSetFacts, type SetFacts } from "./sets.ts";
import { shardSelector } from "./store/shard.ts";
import { readWorkloadFacts, type WorkloadCaches, type WorkloadFacts } from "./workloads.ts";

export interface WebhookCaches extends AsyncDisposable {
  readonly shards: ObjectCache<ConfigMap>;
  readonly pods: ObjectCache<SlimPod>;
  readonly nodes: ObjectCache<NodeFacts>;
  readonly workloads: WorkloadCaches;
  readonly sets: ObjectCache<SetFacts>;
  readonly hibernations: ObjectCache<HibernationFacts>;
  readonly namespaces: ObjectCache<KubeObject>;
  /** Rejects when a cache can no longer be relied on. */
  readonly failed: Promise<never>;
}

export async function openWebhookCaches(
  client: KubeConnection,
  { log, signal }: Abortable & { readonly log: Logger },
): Promise<WebhookCaches> {
  await using stack = new AsyncDisposableStack();
  const caches = stack.use(openCaches({ client, log }));
  const shards = caches.open(configMaps, { namespace: systemNamespace, labelSelector: shardSelector });
  await shards.synced({ signal });
  const opened = {
    pods: caches.open(as<SlimPod>(pods), { read: readSlimPod }),
    nodes: caches.open(as<NodeFacts>(nodes), { read: readNodeFacts }),
    workloads: {
      deployments: caches.open(as<WorkloadFacts>(deployments), { read: readWorkloadFacts }),
      statefulsets: caches.open(as<WorkloadFacts>(statefulSets), { read: readWorkloadFacts }),
      replicasets: caches.open(as<WorkloadFacts>(replicaSets), { read: readWorkloadFacts }),
    },
    sets: caches.open(cocoonSets, { read: readSetFacts }),
    hibernations: caches.open(cocoonHibernations, { read: readHibernationFacts }),
    namespaces: caches.open(as<KubeObject>(namespaces), { read: readName }),
  };
  const { workloads, ...others } = opened;
  const all = [shards, ...Object.values(others), ...Object.values(workloads)];
  await Promise.all(all.map((cache) => cache.synced({ signal })));
  const failed = Promise.race(all.map((cache) => cache.failed));
  failed.catch(() => undefined); // reported where it is awaited
  const owned = stack.move();
  return { shards, ...opened, failed, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Only that it exists matters. */
function readName({ metadata: { name = "", uid = "", resourceVersion = "" } }: KubeObject): KubeObject {
  return { metadata: { name, uid, resourceVersion } };
}

/** The same kind, read into a form of our own. */
function as<T extends KubeObject>(type: ResourceType<KubeObject>): ResourceType<T> {
  const { group, version, kind, plural, namespaced } = type;
  return resourceType<T>({ group, version, kind, plural, namespaced });
}
