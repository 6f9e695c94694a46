/** Statuses of pods that the kubelet itself writes, and the patch that brings a status to the API server. */
import { isDeepStrictEqual } from "node:util";
import { findCondition, mergeConditions } from "@cocoon/core/conditions";
import type { Condition, Container, ContainerStatus, PodStatus } from "@cocoon/kube";
import type { Pod, PodReport } from "../provider.ts";

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

/** Before the first report of the provider: as kubectl shows a pod that is being created. */
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
 * A merge patch of the status, guarded by the pod's uid; undefined when it would change nothing. Conditions of other writers
 * stay. Annotations are sent as reported.
 */
export function statusPatch(pod: Pod, report: PodReport, now: Date): object | undefined {
  const { status: wanted, annotations = {} } = report;
  const conditions = mergePodConditions(pod.status?.conditions ?? [], wanted.conditions ?? [], now);
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

function mergePodConditions(
  before: readonly Condition[],
  wanted: readonly Condition[],
  now: Date,
): readonly Condition[] {
  const complete = wanted.map((condition) => {
    const old = findCondition(before, condition.type);
    return {
      ...condition,
      lastProbeTime: old?.lastProbeTime ?? null,
      ...(old?.observedGeneration === undefined ? {} : { observedGeneration: old.observedGeneration }),
    };
  });
  return mergeConditions(before, complete, { now });
}

export function samePod(left: Pod, right: Pod): boolean {
  return isDeepStrictEqual(comparable(left), comparable(right));
}

function comparable(pod: Pod): unknown {
  const { containers, initContainers, ephemeralContainers, activeDeadlineSeconds, tolerations } = pod.spec;
  return [
    containers,
    initContainers ?? [],
    ephemeralContainers ?? [],
    activeDeadlineSeconds,
    tolerations ?? [],
    pod.metadata.labels ?? {},
    pod.metadata.annotations ?? {},
    pod.metadata.ownerReferences?.map(({ uid }) => uid) ?? [],
  ];
}

export function isTerminal(pod: Pod): boolean {
  return pod.status?.phase === "Succeeded" || pod.status?.phase === "Failed";
}

/** Own status writes come back as updates; only what concerns a provider is reconciled. */
export function isRelevant(old: Pod, now: Pod): boolean {
  return (
    !samePod(old, now) ||
    old.metadata.deletionTimestamp !== now.metadata.deletionTimestamp ||
    old.metadata.uid !== now.metadata.uid ||
    isTerminal(old) !== isTerminal(now)
  );
}
