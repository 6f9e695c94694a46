/** Machines as people look at them: one row per machine, from its pod, or from its set where it sleeps without one. */
import {
  annotation,
  isMachinePod,
  label,
  readMachineState,
  readText,
  readVmRuntime,
  readVmSpec,
  type AgentStatus,
  type MachineState,
  type ToolboxStatus,
} from "@cocoon/contract";
import type { Pod } from "@cocoon/kube";
import type { SetObject } from "./kinds.ts";

export interface MachineRow {
  readonly namespace: string;
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
    return rowFromPod(pod, sets);
  });
  const unseated = sets.flatMap((set) =>
    listMachines(set)
      .filter(({ podName = "" }) => !seated.has(`${set.metadata.namespace}/${podName}`))
      .map((machine) => rowFromStatus(set, machine)),
  );
  return [...rows, ...unseated].sort(
    (left, right) =>
      left.namespace.localeCompare(right.namespace) ||
      left.name.localeCompare(right.name, undefined, { numeric: true }),
  );
}

type MachineStatus = AgentStatus | ToolboxStatus;

function listMachines({ status }: SetObject): MachineStatus[] {
  return [...(status?.agents ?? []), ...(status?.toolboxes ?? [])];
}

function rowFromPod(pod: Pod, sets: readonly SetObject[]): MachineRow {
  const { metadata, spec } = pod;
  const { namespace = "", name = "", creationTimestamp: createdAt = "" } = metadata;
  const { [label.set]: set = "", [label.role]: role = "" } = metadata.labels ?? {};
  const vm = readVmSpec(metadata.annotations);
  const runtime = readVmRuntime(metadata.annotations);
  const { state, message } = readMachineState(pod);
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
    snapshot: state === "ready" ? "" : findSnapshot(pod, sets),
    createdAt,
    vmName: vm.vmName,
    vmId: runtime.vmId,
    image: vm.image,
    message,
  };
}

/** The kubelet records it on the pod, the operator in the set's status. */
function findSnapshot({ metadata }: Pod, sets: readonly SetObject[]): string {
  const recorded = readText(metadata.annotations, annotation.snapshotDigest);
  if (recorded !== "") return recorded;
  const owner = metadata.labels?.[label.set];
  const set = sets.find(
    (each) => each.metadata.namespace === metadata.namespace && each.metadata.name === owner,
  );
  return (set && listMachines(set).find(({ podName }) => podName === metadata.name)?.snapshotDigest) ?? "";
}

type Amounts = Readonly<Record<string, string | number>>;

function amounts({ cpu = "", memory = "" }: Amounts): Pick<MachineRow, "cpu" | "memory"> {
  return { cpu: String(cpu), memory: String(memory) };
}

function readAmounts({ spec }: SetObject): Pick<MachineRow, "cpu" | "memory"> {
  const { limits, requests } = spec?.agent.resources ?? {};
  return amounts({ ...limits, ...requests });
}

const noPodYet = "it has no pod yet; `events` may tell why";

/** A hibernated machine whose pod was released: only its set's status lists it. */
function rowFromStatus(owner: SetObject, machine: MachineStatus): MachineRow {
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
    ...readAmounts(owner),
    snapshot,
    createdAt,
    vmName,
    vmId: "",
    image: owner.spec?.agent.image ?? "",
    message: asleep ? "" : noPodYet,
  };
}
