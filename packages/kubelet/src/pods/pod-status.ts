/** Statuses of pods that the kubelet itself writes, and the patch that brings a status to the API server. */
import { isDeepStrictEqual } from "node:util";
import type { Container, ContainerStatus, Pod, PodCondition, PodReport, PodStatus } from "../provider.ts";

function waitingContainers(
  containers: readonly Container[],
  reason: string,
  message?: string,
): readonly ContainerStatus[] {
  return containers.map((container) => ({
    name: container.name,
    image: container.image ?? "",
    imageID: "",
    ready: false,
    started: false,
    restartCount: 0,
    state: { waiting: { reason, ...(message ? { message } : {}) } },
  }));
}

/** Before the provider has said anything: as kubectl shows a pod that is being created. */
export function pendingStatus(pod: Pod, hostIp: string | undefined): PodStatus {
  return {
    phase: "Pending",
    startTime: pod.metadata.creationTimestamp ?? new Date().toISOString(),
    ...(hostIp ? { hostIP: hostIp, hostIPs: [{ ip: hostIp }] } : {}),
    conditions: [
      { type: "Initialized", status: "True" },
      { type: "Ready", status: "False", reason: "ContainersNotReady" },
      { type: "ContainersReady", status: "False", reason: "ContainersNotReady" },
    ],
    containerStatuses: waitingContainers(pod.spec.containers, "ContainerCreating"),
  };
}

/** The provider could not create the pod, or its environment is not there yet. It will be tried again. */
export function failedAttemptStatus(pod: Pod, reason: string, message: string): PodStatus {
  return {
    ...pendingStatus(pod, undefined),
    phase: pod.spec.restartPolicy === "Never" ? "Failed" : "Pending",
    reason,
    message,
    containerStatuses: waitingContainers(pod.spec.containers, reason, message),
  };
}

export function rejectedStatus(reason: string, message: string): PodStatus {
  return { phase: "Failed", reason, message: `Pod was rejected: ${message}` };
}

/**
 * A merge patch of the status alone, guarded by the pod's uid; undefined when it would change nothing. Conditions of
 * others (the scheduler's, the eviction API's) stay; a condition keeps its transition time while its status stays.
 * Annotations are sent as they are: who reports them knows what is written better than any cache.
 */
export function statusPatch(pod: Pod, report: PodReport, now: Date): object | undefined {
  const { status: wanted, annotations = {} } = report;
  const conditions = mergeConditions(pod.status?.conditions ?? [], wanted.conditions ?? [], now);
  const status: Record<string, unknown> = { ...wanted, ...(wanted.conditions ? { conditions } : {}) };
  const before = (pod.status ?? {}) as Readonly<Record<string, unknown>>;
  for (const field of ["reason", "message", "podIP", "podIPs"] as const) {
    if (status[field] === undefined && before[field] !== undefined) status[field] = null;
  }
  const changed = Object.entries(status).filter(
    ([field, value]) => !isDeepStrictEqual(value ?? undefined, before[field] ?? undefined),
  );
  const annotated = Object.keys(annotations).length > 0;
  if (changed.length === 0 && !annotated) return undefined;
  return {
    metadata: { uid: pod.metadata.uid, ...(annotated ? { annotations } : {}) },
    status: Object.fromEntries(changed),
  };
}

function mergeConditions(
  before: readonly PodCondition[],
  wanted: readonly PodCondition[],
  now: Date,
): readonly PodCondition[] {
  const time = now.toISOString().replace(/\.\d+Z$/, "Z");
  const merged = wanted.map((condition) => {
    const old = before.find((each) => each.type === condition.type);
    const kept = old?.status === condition.status ? old.lastTransitionTime : undefined;
    return {
      ...condition,
      lastProbeTime: old?.lastProbeTime ?? null,
      lastTransitionTime: kept ?? time,
      ...(old?.observedGeneration === undefined ? {} : { observedGeneration: old.observedGeneration }),
    };
  });
  const others = before.filter((each) => !wanted.some((condition) => condition.type === each.type));
  return [...others, ...merged];
}
