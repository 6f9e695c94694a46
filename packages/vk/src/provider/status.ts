/** A machine's state as the status of its pod. Pure; the kubelet library sets transition times. */
import { annotation } from "@cocoon/contract";
import type { ContainerState, ContainerStatus, Pod, PodCondition, PodStatus } from "@cocoon/kubelet";

export type Shown =
  | {
      readonly kind: "live";
      readonly ip: string;
      readonly ready: boolean;
      /** Which check ran, and what it said. */
      readonly message: string;
      readonly startedAt: string;
      readonly restarts: number;
      readonly vmId: string;
      /** How its size differs from what the pod asks for. */
      readonly size: string | undefined;
    }
  | { readonly kind: "hibernating" }
  | { readonly kind: "asleep" }
  | { readonly kind: "ended"; readonly reason: string; readonly message: string };

export interface StatusFacts {
  readonly hostIp: string;
  /** `Pending` for readers that know the newest Go kubelet only. */
  readonly hibernatedPhase: "Running" | "Pending";
}

const sleeping = { reason: "Hibernated", message: "the machine sleeps in the registry, waiting for wake" };

export function buildStatus(pod: Pod, shown: Shown, facts: StatusFacts): PodStatus {
  const base = {
    startTime: pod.status?.startTime ?? pod.metadata.creationTimestamp ?? new Date(0).toISOString(),
    ...(facts.hostIp === "" ? {} : { hostIP: facts.hostIp, hostIPs: [{ ip: facts.hostIp }] }),
  };
  return { ...base, ...shownStatus(pod, shown, facts) };
}

function shownStatus(pod: Pod, shown: Shown, facts: StatusFacts): PodStatus {
  if (shown.kind === "live") return liveStatus(pod, shown);
  if (shown.kind === "hibernating") return hibernatingStatus(pod);
  return shown.kind === "asleep" ? asleepStatus(pod, facts) : endedStatus(pod, shown);
}

function hibernatingStatus(pod: Pod): PodStatus {
  const why = { reason: "Hibernating", message: "the machine is saved and pushed to the registry" };
  const running = { startedAt: pod.status?.startTime ?? new Date(0).toISOString() };
  return {
    phase: "Running",
    conditions: conditions(false, why),
    containerStatuses: containers(pod, { ready: false, state: { running } }),
  };
}

function asleepStatus(pod: Pod, { hibernatedPhase }: StatusFacts): PodStatus {
  const waiting = containers(pod, { ready: false, state: { waiting: sleeping } });
  return {
    phase: hibernatedPhase,
    conditions: conditions(false, sleeping),
    containerStatuses: hibernatedPhase === "Running" ? waiting : [],
  };
}

function endedStatus(pod: Pod, { reason, message }: Extract<Shown, { kind: "ended" }>): PodStatus {
  return {
    phase: "Failed",
    reason,
    message,
    conditions: conditions(false, { reason, message }),
    containerStatuses: containers(pod, {
      ready: false,
      state: { terminated: { exitCode: 1, reason, message } },
    }),
  };
}

function liveStatus(pod: Pod, live: Extract<Shown, { kind: "live" }>): PodStatus {
  return {
    phase: "Running",
    ...(live.ip === "" ? {} : { podIP: live.ip, podIPs: [{ ip: live.ip }] }),
    conditions: [
      ...conditions(live.ready, {
        ...(live.ready ? {} : { reason: "ContainersNotReady" }),
        message: live.message,
      }),
      ...sizeCondition(pod, live.size),
      ...restoredCondition(pod),
    ],
    containerStatuses: containers(pod, {
      ready: live.ready,
      state: { running: { startedAt: live.startedAt } },
      restartCount: live.restarts,
      ...(live.vmId === "" ? {} : { containerID: `cocoon://${live.vmId}` }),
    }),
  };
}

/** Clients of PodSnapshots wait for it, and look for the name of theirs. */
function restoredCondition({ metadata }: Pod): readonly PodCondition[] {
  const names = metadata.annotations?.[annotation.restoredSnapshots];
  if (!names) return [];
  const message = `restored with everything up to ${names.split(",").join(", ")}`;
  return [{ type: "PodRestored", status: "True", reason: "Restored", message }];
}

const sizeApplied = "cocoonstack.io/SizeApplied";

/** Only where the size differs, or did: most pods have none. */
function sizeCondition(pod: Pod, message: string | undefined): readonly PodCondition[] {
  if (message !== undefined)
    return [{ type: sizeApplied, status: "False", reason: "SnapshotSizeKept", message }];
  const isKnown = pod.status?.conditions?.some(({ type }) => type === sizeApplied);
  return isKnown ? [{ type: sizeApplied, status: "True" }] : [];
}

function conditions(
  ready: boolean,
  why: { readonly reason?: string; readonly message?: string },
): readonly PodCondition[] {
  const detail = {
    ...(why.reason ? { reason: why.reason } : {}),
    ...(why.message ? { message: why.message } : {}),
  };
  const status = ready ? ("True" as const) : ("False" as const);
  return [
    { type: "PodReadyToStartContainers", status: "True" },
    { type: "Initialized", status: "True" },
    { type: "Ready", status, ...detail },
    { type: "ContainersReady", status, ...detail },
  ];
}

function containers(
  pod: Pod,
  shown: {
    readonly ready: boolean;
    readonly state: ContainerState;
    readonly restartCount?: number;
    readonly containerID?: string;
  },
): readonly ContainerStatus[] {
  return pod.spec.containers.map((container) => ({
    restartCount: 0,
    ...shown,
    name: container.name,
    image: container.image ?? "",
    imageID: container.image ?? "",
    started: shown.state.running !== undefined,
  }));
}
