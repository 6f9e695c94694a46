/** A pod read as the machine it stands for: every annotation, label and condition that a decision rests on, once. */
import {
  annotation,
  hasReached,
  isContainerRunning,
  isPodReady,
  isPodTerminal,
  label,
  legacyLabel,
  ownerSet,
  readFlag,
  readGeneration,
  readHibernate,
  readKeepSnapshotOnDelete,
  readLifecycle,
  readRestoreFromHibernate,
  readText,
  readVmRuntime,
  readVmSpec,
  getPodRole,
  shouldSnapshot,
  tryParseSlot,
  type LifecycleStatus,
  type VmRuntime,
  type VmSpec,
} from "@cocoon/contract";
import type { MachinePod } from "./machine-pod.ts";

/** `warm`: a sub-agent that was started before its slot was requested. */
const machineRoles = ["main", "sub-agent", "toolbox", "warm"] as const;
export type MachineRole = (typeof machineRoles)[number];

/** What requested a hibernation; "" when the annotation was set by hand or by another system. */
const hibernateReasons = ["suspend", "migration", "hibernation", "idle"] as const;
export type HibernateReason = (typeof hibernateReasons)[number];

export interface Machine {
  readonly namespace: string;
  readonly podName: string;
  readonly podUid: string;
  /** Name of the owning set; "" without one. */
  readonly set: string;
  /** Undefined: the labels do not say. */
  readonly role: MachineRole | undefined;
  /** Slot number of an agent, name of a toolbox. */
  readonly member: number | string;
  readonly vm: VmSpec;
  readonly runtime: VmRuntime;
  readonly lifecycle: LifecycleStatus;
  /** Of the desired state that the pod carries. */
  readonly generation: number;
  readonly terminating: boolean;
  /** Evicted, preempted, or its node is lost: no user asked for the machine's end. */
  readonly disrupted: boolean;
  /** The pod asks for a hibernated machine. */
  readonly hibernate: boolean;
  readonly hibernateReason: HibernateReason | "";
  /** The operator vouches that the machine is hibernated and must be restored. */
  readonly restoreMarked: boolean;
  readonly keepSnapshot: boolean;
  /** The policy asks for a snapshot `latest` at deletion. */
  readonly snapshotOnDelete: boolean;
  readonly deadLetter: boolean;
  /** Digest of the snapshot that the machine is hibernated in, as its kubelet recorded it. */
  readonly recordedDigest: string;
  /** Digest of the snapshot that the VM in `runtime.vmId` was restored from; "" when it was not, or is not known. */
  readonly restoredDigest: string;
  /** Id of that snapshot. */
  readonly restoredFrom: string;
  /** The VM runs while content of that snapshot is still on its way: the snapshot must stay. */
  readonly loading: boolean;
  readonly ready: boolean;
  /** For good, as far as its kubelet or the pod says. */
  readonly failed: boolean;
  /** Hibernated at the current generation. */
  readonly asleep: boolean;
  /** Runs, ready at the current generation, and not asked to hibernate: a wake is complete. */
  readonly awake: boolean;
  readonly node: string;
  /** Why the scheduler finds no node; "" when it did not say so. */
  readonly unschedulable: string;
  readonly idleSince: Date | undefined;
}

/** Never throws: annotations that are missing or malformed read as "not set". */
export function readMachine(pod: MachinePod): Machine {
  const { annotations, labels } = pod.metadata;
  const { metadata, status } = pod;
  const described = { metadata, status };
  const vm = readVmSpec(annotations);
  const runtime = readVmRuntime(annotations);
  const lifecycle = readLifecycle(annotations);
  const generation = readGeneration(annotations);
  const hibernate = readHibernate(annotations);
  return {
    namespace: pod.metadata.namespace ?? "",
    podName: pod.metadata.name ?? "",
    podUid: pod.metadata.uid ?? "",
    set: ownerSet(described) ?? "",
    ...readRole(labels),
    vm,
    runtime,
    lifecycle,
    generation,
    terminating: pod.metadata.deletionTimestamp !== undefined,
    disrupted: isDisrupted(pod),
    hibernate,
    hibernateReason: readReason(readText(annotations, annotation.hibernateReason)),
    restoreMarked: readRestoreFromHibernate(annotations),
    keepSnapshot: readKeepSnapshotOnDelete(annotations),
    snapshotOnDelete: shouldSnapshot(vm.snapshotPolicy, getPodRole(described)),
    deadLetter: readFlag(annotations, annotation.deadLetter),
    recordedDigest: readText(annotations, annotation.snapshotDigest),
    restoredDigest: readText(annotations, annotation.restoredDigest),
    restoredFrom: readText(annotations, annotation.restoredFrom),
    loading: readFlag(annotations, annotation.loading),
    // A wake that ends a hibernation: the VM may be paused still, whatever the pod's last status says.
    ready: isPodReady(described) && !hibernate && lifecycle.state !== "hibernating",
    failed: isPodTerminal(described) || hasFailed({ vm, runtime, lifecycle, generation }),
    asleep: hibernate && hasReached(lifecycle, "hibernated", generation),
    awake:
      !hibernate &&
      runtime.vmId !== "" &&
      hasReached(lifecycle, "ready", generation) &&
      isContainerRunning(described),
    node: pod.spec?.nodeName ?? "",
    unschedulable: readUnschedulable(pod),
    idleSince: tryReadTime(readText(annotations, annotation.idleSince)),
  };
}

/** Eviction, taint manager, preemption and pod garbage collection set the condition before they delete. */
function isDisrupted({ status }: Pick<MachinePod, "status">): boolean {
  return (
    status?.conditions?.some((each) => each.type === "DisruptionTarget" && each.status === "True") ?? false
  );
}

/** A static machine without an address has not failed: it waits for its address. */
function hasFailed({
  vm,
  runtime,
  lifecycle,
  generation,
}: Pick<Machine, "vm" | "runtime" | "lifecycle" | "generation">): boolean {
  const addressKnown = runtime.vmId !== "" && runtime.ip !== "";
  return hasReached(lifecycle, "failed", generation) && (vm.managed || addressKnown);
}

function readRole(labels: MachinePod["metadata"]["labels"]): Pick<Machine, "role" | "member"> {
  const role = machineRoles.find((each) => each === readText(labels, label.role, legacyLabel.role));
  const slot = readText(labels, label.slot, legacyLabel.slot);
  if (role === undefined || slot === "") return { role: undefined, member: slot };
  if (role === "toolbox") return { role, member: slot };
  const number = tryParseSlot(slot);
  const fits = number !== undefined && (role === "main") === (number === 0);
  return fits ? { role, member: number } : { role: undefined, member: slot };
}

function readReason(text: string): HibernateReason | "" {
  return hibernateReasons.find((reason) => reason === text) ?? "";
}

function readUnschedulable(pod: MachinePod): string {
  const condition = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const refused = condition?.status === "False" && condition.reason === "Unschedulable";
  return refused ? condition.message || "Unschedulable" : "";
}

function tryReadTime(text: string): Date | undefined {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? undefined : at;
}
