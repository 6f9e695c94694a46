/** A pod seen as the machine it stands for: every annotation and condition that a decision rests on, read once. */
import {
  annotation,
  hasReached,
  isContainerRunning,
  isPodReady,
  isPodTerminal,
  label,
  legacyLabel,
  readFlag,
  readGeneration,
  readHibernate,
  readLifecycle,
  readRestoreFromHibernate,
  readText,
  readVmRuntime,
  readVmSpec,
  tryParseSlot,
  type LifecycleStatus,
  type VmRuntime,
  type VmSpec,
} from "@cocoon/contract";
import type { Pod } from "@cocoon/kube";

/** `warm`: a sub-agent that is ready before anybody asked for its slot. */
const machineRoles = ["main", "sub-agent", "toolbox", "warm"] as const;
export type MachineRole = (typeof machineRoles)[number];

/** Who asked for a sleep; "" when the key was set by hand or by another system. */
const sleepReasons = ["suspend", "migration", "hibernation", "idle"] as const;
export type SleepReason = (typeof sleepReasons)[number];

export interface Machine {
  readonly pod: Pod;
  readonly podName: string;
  /** Undefined: the labels do not say; such a pod is counted but never touched. */
  readonly role: MachineRole | undefined;
  /** Slot number of an agent, name of a toolbox. */
  readonly member: number | string;
  readonly vm: VmSpec;
  readonly runtime: VmRuntime;
  readonly lifecycle: LifecycleStatus;
  /** The set's generation that the pod carries. */
  readonly stamp: number;
  readonly terminating: boolean;
  /** Evicted, preempted, or its node is lost: nobody asked for the machine's end. */
  readonly disrupted: boolean;
  readonly sleepKey: boolean;
  readonly sleepReason: SleepReason | "";
  readonly restoreMarked: boolean;
  readonly deadLetter: boolean;
  /** Digest of the snapshot it sleeps in, as its kubelet recorded it. */
  readonly recordedDigest: string;
  readonly ready: boolean;
  /** For good, as far as its kubelet or the pod says. */
  readonly failed: boolean;
  /** Sleeps, and its kubelet said so for the newest wish. */
  readonly asleep: boolean;
  /** Runs, is ready for the newest wish and is not asked to sleep: a wake is complete. */
  readonly awake: boolean;
  readonly node: string;
  /** Why the scheduler finds no place; "" when it did not say so. */
  readonly unschedulable: string;
  readonly idleSince: Date | undefined;
}

export function readMachine(pod: Pod): Machine {
  const { annotations, labels } = pod.metadata;
  const vm = readVmSpec(annotations);
  const runtime = readVmRuntime(annotations);
  const lifecycle = readLifecycle(annotations);
  const stamp = readGeneration(annotations);
  const sleepKey = readHibernate(annotations);
  const { role, member } = readRole(labels);
  return {
    pod,
    podName: pod.metadata.name ?? "",
    role,
    member,
    vm,
    runtime,
    lifecycle,
    stamp,
    terminating: pod.metadata.deletionTimestamp !== undefined,
    disrupted: isDisrupted(pod),
    sleepKey,
    sleepReason: readReason(readText(annotations, annotation.hibernateReason)),
    restoreMarked: readRestoreFromHibernate(annotations),
    deadLetter: readFlag(annotations, annotation.deadLetter),
    recordedDigest: readText(annotations, annotation.snapshotDigest),
    ready: isPodReady(pod) && !sleepKey,
    failed: isPodTerminal(pod) || hasFailed({ vm, runtime, lifecycle, stamp }),
    asleep: sleepKey && hasReached(lifecycle, "hibernated", stamp),
    awake:
      !sleepKey && runtime.vmId !== "" && hasReached(lifecycle, "ready", stamp) && isContainerRunning(pod),
    node: pod.spec?.nodeName ?? "",
    unschedulable: unschedulableReason(pod),
    idleSince: readTime(readText(annotations, annotation.idleSince)),
  };
}

/** A static machine without address is not broken: it waits for somebody to tell it. */
function hasFailed({
  vm,
  runtime,
  lifecycle,
  stamp,
}: Pick<Machine, "vm" | "runtime" | "lifecycle" | "stamp">): boolean {
  const knownAddress = runtime.vmId !== "" && runtime.ip !== "";
  return hasReached(lifecycle, "failed", stamp) && (vm.managed || knownAddress);
}

function readRole(labels: Pod["metadata"]["labels"]): Pick<Machine, "role" | "member"> {
  const role = machineRoles.find((each) => each === readText(labels, label.role, legacyLabel.role));
  const slot = readText(labels, label.slot, legacyLabel.slot);
  if (role === undefined || slot === "") return { role: undefined, member: slot };
  if (role === "toolbox") return { role, member: slot };
  const number = tryParseSlot(slot);
  const fits = number !== undefined && (role === "main") === (number === 0);
  return fits ? { role, member: number } : { role: undefined, member: slot };
}

function isDisrupted({ status }: Pod): boolean {
  return (
    status?.conditions?.some((each) => each.type === "DisruptionTarget" && each.status === "True") ?? false
  );
}

function readReason(text: string): SleepReason | "" {
  return sleepReasons.find((reason) => reason === text) ?? "";
}

function unschedulableReason(pod: Pod): string {
  const condition = pod.status?.conditions?.find(({ type }) => type === "PodScheduled");
  const refused = condition?.status === "False" && condition.reason === "Unschedulable";
  return refused ? condition.message || "Unschedulable" : "";
}

function readTime(text: string): Date | undefined {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? undefined : at;
}

/** When the pod became ready; 0 when nobody said. */
export function readySince({ pod }: Machine): number {
  const ready = pod.status?.conditions?.find(({ type }) => type === "Ready");
  const at = Date.parse(ready?.lastTransitionTime ?? "");
  return Number.isNaN(at) ? 0 : at;
}

const livingStates: ReadonlySet<string> = new Set(["ready", "hibernating", "hibernated"]);

/** Nothing says that its machine was ever there: neither here nor in a copy. */
export function neverLived({ runtime, restoreMarked, recordedDigest, lifecycle, ready }: Machine): boolean {
  const traces = ready || runtime.vmId !== "" || restoreMarked || recordedDigest !== "";
  return !traces && !livingStates.has(lifecycle.state);
}

/** When its pod goes, a copy of it may be left: it is to sleep, nobody asked for its end, or it never was ready. */
export function mayLeaveCopy({ sleepKey, disrupted, lifecycle }: Machine): boolean {
  return sleepKey || disrupted || lifecycle.state !== "ready";
}
