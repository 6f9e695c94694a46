/** Machines as people look at them: one row per machine, from its pod, or from its set where it sleeps without one. */
import {
  annotation,
  isMachinePod,
  isPodReady,
  label,
  lifecycleStates,
  readHibernate,
  readLifecycle,
  readRestoreFromHibernate,
  readText,
  readVmRuntime,
  readVmSpec,
  type AgentStatus,
  type ToolboxStatus,
} from "@cocoon/contract";
import type { Pod } from "@cocoon/kube";
import type { SetObject } from "./kinds.ts";

type MachineState =
  | "ready"
  | "not ready"
  | "pending"
  | "creating"
  | "hibernating"
  | "asleep"
  | "waking"
  | "failed"
  | "terminating"
  | "unknown";

export interface MachineRow {
  readonly namespace: string;
  /** Of its pod. */
  readonly name: string;
  readonly set: string;
  readonly role: string;
  readonly state: MachineState;
  readonly node: string;
  readonly ip: string;
  readonly cpu: string;
  readonly memory: string;
  /** Digest of what it sleeps in. */
  readonly snapshot: string;
  readonly createdAt: string;
  readonly vmName: string;
  readonly vmId: string;
  readonly image: string;
  /** Why it is not at rest; "" when it is. */
  readonly message: string;
}

export function machineRows(sets: readonly SetObject[], allPods: readonly Pod[]): MachineRow[] {
  const seated = new Set<string>();
  const rows = allPods.filter(isMachinePod).map((pod) => {
    seated.add(`${pod.metadata.namespace}/${pod.metadata.name}`);
    return rowOfPod(pod, sets);
  });
  const unseated = sets.flatMap((set) =>
    machinesOf(set)
      .filter(({ podName = "" }) => !seated.has(`${set.metadata.namespace}/${podName}`))
      .map((machine) => rowOfStatus(set, machine)),
  );
  return [...rows, ...unseated].sort(
    (left, right) =>
      left.namespace.localeCompare(right.namespace) ||
      left.name.localeCompare(right.name, undefined, { numeric: true }),
  );
}

type MachineStatus = AgentStatus | ToolboxStatus;

function machinesOf({ status }: SetObject): MachineStatus[] {
  return [...(status?.agents ?? []), ...(status?.toolboxes ?? [])];
}

function rowOfPod(pod: Pod, sets: readonly SetObject[]): MachineRow {
  const { metadata, spec } = pod;
  const { namespace = "", name = "", creationTimestamp: createdAt = "" } = metadata;
  const { [label.set]: set = "", [label.role]: role = "" } = metadata.labels ?? {};
  const vm = readVmSpec(metadata.annotations);
  const runtime = readVmRuntime(metadata.annotations);
  const { state, message } = stateOfPod(pod);
  const { requests, limits } = spec?.containers[0]?.resources ?? {};
  return {
    namespace,
    name,
    set,
    role,
    state,
    node: spec?.nodeName ?? "",
    ip: runtime.ip,
    ...amounts({ ...limits, ...requests }),
    snapshot: state === "ready" ? "" : snapshotOf(pod, sets),
    createdAt,
    vmName: vm.vmName,
    vmId: runtime.vmId,
    image: vm.image,
    message,
  };
}

/** The kubelet records it on the pod, the operator in the set's status. */
function snapshotOf({ metadata }: Pod, sets: readonly SetObject[]): string {
  const recorded = readText(metadata.annotations, annotation.snapshotDigest);
  if (recorded !== "") return recorded;
  const owner = metadata.labels?.[label.set];
  const set = sets.find(
    (each) => each.metadata.namespace === metadata.namespace && each.metadata.name === owner,
  );
  return (set && machinesOf(set).find(({ podName }) => podName === metadata.name)?.snapshotDigest) ?? "";
}

type Amounts = Readonly<Record<string, string | number>>;

function amounts({ cpu = "", memory = "" }: Amounts): Pick<MachineRow, "cpu" | "memory"> {
  return { cpu: String(cpu), memory: String(memory) };
}

function amountsOf({ spec }: SetObject): Pick<MachineRow, "cpu" | "memory"> {
  const { limits, requests } = spec?.agent.resources ?? {};
  return amounts({ ...limits, ...requests });
}

const noPodYet = "it has no pod yet; `events` may tell why";

/** A seat that was given up while its machine sleeps: only the set remembers it. */
function rowOfStatus(owner: SetObject, machine: MachineStatus): MachineRow {
  const { namespace = "", name: set = "", creationTimestamp: createdAt = "" } = owner.metadata;
  const { podName: name = "", nodeName: node = "", vmName = "", snapshotDigest: snapshot = "" } = machine;
  const asleep = machine.lifecycleState === "hibernated";
  return {
    namespace,
    name,
    set,
    role: "role" in machine ? machine.role : "toolbox",
    state: asleep ? "asleep" : "pending",
    node,
    ip: "",
    ...amountsOf(owner),
    snapshot,
    createdAt,
    vmName,
    vmId: "",
    image: owner.spec?.agent.image ?? "",
    message: asleep ? "" : noPodYet,
  };
}

interface Finding {
  readonly state: MachineState;
  readonly message: string;
}

export function stateOfPod(pod: Pod): Finding {
  const { annotations } = pod.metadata;
  const { state, message } = readLifecycle(annotations);
  if (pod.metadata.deletionTimestamp) return { state: "terminating", message };
  if (state === "failed" || pod.status?.phase === "Failed")
    return {
      state: "failed",
      message: message || podMessage(pod) || "no reason was given; `events` may tell",
    };
  switch (state) {
    case "hibernated":
      return readHibernate(annotations) ? { state: "asleep", message: "" } : { state: "waking", message };
    case "hibernating":
      return { state: "hibernating", message };
    case "creating":
      return { state: comesBack(annotations) ? "waking" : "creating", message };
    case "ready":
      return readHibernate(annotations) ? { state: "hibernating", message } : readiness(pod);
    default:
      return unreported(pod);
  }
}

/** Not made anew, but from where it slept. */
function comesBack(annotations: Readonly<Record<string, string>> | undefined): boolean {
  return readRestoreFromHibernate(annotations) || readText(annotations, annotation.snapshotDigest) !== "";
}

function readiness(pod: Pod): Finding {
  return isPodReady(pod) ? { state: "ready", message: "" } : { state: "not ready", message: podMessage(pod) };
}

/** Nothing was reported, or a word of another version. */
function unreported(pod: Pod): Finding {
  const said = readText(pod.metadata.annotations, annotation.lifecycleState);
  if (said !== "")
    return {
      state: "unknown",
      message: `its kubelet reports "${said.slice(0, 60)}", which this version does not know (it knows ${lifecycleStates.join(", ")}); use a cocoonctl as new as the nodes`,
    };
  if (!pod.spec?.nodeName) return { state: "pending", message: podMessage(pod) || "it waits for a node" };
  return {
    state: "pending",
    message: `node ${pod.spec.nodeName} has not reported about it yet; is its kubelet up?`,
  };
}

/** What the pod's own conditions say, if anything. */
function podMessage({ status }: Pod): string {
  if (status?.message) return status.message;
  const trouble = ["PodScheduled", "Ready"]
    .map((type) => status?.conditions?.find((each) => each.type === type && each.status !== "True"))
    .find((condition) => condition?.message);
  return trouble?.message ?? "";
}
