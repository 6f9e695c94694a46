/** Deployments, StatefulSets and ReplicaSets as the caches show them: the parents of machines. */
import { hostTaint, workloadAnnotation } from "@cocoon/contract";
import type { KubeObject, ObjectCache, PodTemplate } from "@cocoon/kube";
import type { Lineage } from "./store/entry.ts";

/** What is kept of a workload. */
export interface WorkloadFacts extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
  readonly replicas: number;
  readonly isCocoon: boolean;
  readonly allowsScaleDown: boolean;
}

interface Replicated extends KubeObject {
  readonly spec?: { readonly replicas?: number | null; readonly template?: PodTemplate };
}

export function readWorkloadFacts(object: KubeObject): WorkloadFacts {
  const { name = "", namespace = "", uid = "", resourceVersion = "", annotations } = object.metadata;
  const { spec } = object as Replicated;
  return {
    metadata: { name, namespace, uid, resourceVersion },
    replicas: spec?.replicas ?? 1,
    isCocoon: spec?.template?.spec?.tolerations?.some(({ key }) => key === hostTaint.key) ?? false,
    allowsScaleDown: annotations?.[workloadAnnotation.allowScaleDown] === "true",
  };
}

export interface WorkloadCaches {
  readonly deployments: ObjectCache<WorkloadFacts>;
  readonly statefulsets: ObjectCache<WorkloadFacts>;
  readonly replicasets: ObjectCache<WorkloadFacts>;
}

export class Workloads {
  readonly #caches: WorkloadCaches;

  constructor(caches: WorkloadCaches) {
    this.#caches = caches;
  }

  deploymentUid(namespace: string, name: string): string {
    return this.#caches.deployments.get({ namespace, name })?.metadata.uid ?? "";
  }

  /** How many pods the owner of a lineage wants; undefined when that is not known. */
  desired({ namespace, owner }: Lineage): number | undefined {
    const key = { namespace, name: owner.name };
    if (owner.kind === "Deployment") return this.#caches.deployments.get(key)?.replicas;
    return owner.kind === "ReplicaSet" ? this.#caches.replicasets.get(key)?.replicas : undefined;
  }

  /** By the plural of its kind. */
  find(resource: string, namespace: string, name: string): WorkloadFacts | undefined {
    if (resource !== "deployments" && resource !== "statefulsets" && resource !== "replicasets")
      return undefined;
    return this.#caches[resource].get({ namespace, name });
  }
}
