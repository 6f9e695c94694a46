/** Deployments, StatefulSets and ReplicaSets as the caches show them: the parents of machines. */
import { hostTaint, workloadAnnotation } from "@cocoon/contract";
import type { KubeObject, ObjectCache, PodTemplate } from "@cocoon/kube";
import { slimMetadata, type SlimObject } from "./pods/slim-pod.ts";
import type { OwnerChain } from "./store/entry.ts";

export interface WorkloadFacts extends SlimObject {
  readonly replicas: number;
  readonly isCocoon: boolean;
  readonly allowsScaleDown: boolean;
}

interface Replicated extends KubeObject {
  readonly spec?: { readonly replicas?: number | null; readonly template?: PodTemplate };
}

export function readWorkloadFacts(object: KubeObject): WorkloadFacts {
  const { annotations } = object.metadata;
  const { spec } = object as Replicated;
  return {
    metadata: slimMetadata(object),
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

  /** How many pods the owner of a ownerChain wants; undefined when that is not known. */
  desired({ namespace, owner }: OwnerChain): number | undefined {
    const key = { namespace, name: owner.name };
    if (owner.kind === "Deployment") return this.#caches.deployments.get(key)?.replicas;
    return owner.kind === "ReplicaSet" ? this.#caches.replicasets.get(key)?.replicas : undefined;
  }

  find(resource: keyof WorkloadCaches, namespace: string, name: string): WorkloadFacts | undefined {
    return this.#caches[resource].get({ namespace, name });
  }
}
