/** Machines and observed states for tables of plans. */
import { annotation, type LifecycleStatus, type VmSpec } from "@cocoon/contract";
import { readMachine, type HibernatedSnapshot } from "@cocoon/machine";
import type { PodMachine } from "../pod-machine.ts";
import type { Observed, ObservedVm } from "../provider/observed.ts";

/** The parts of a machine that plans rest on. */
interface MachineFacts extends Partial<Omit<PodMachine, "runtime" | "vm">> {
  readonly vmId?: string;
  readonly ip?: string;
}

export function machine({ vmId = "", ip = "", ...more }: MachineFacts, vm: Partial<VmSpec> = {}): PodMachine {
  const read = readMachine({
    metadata: { namespace: "lab", name: "demo", annotations: { [annotation.generation]: "1" } },
  });
  return {
    ...read,
    mode: "run",
    cloneFromDir: "",
    probePort: undefined,
    lazyWake: true,
    isMacos: false,
    env: undefined,
    snapshotRequest: "",
    rewindTo: "",
    ofSandbox: false,
    pause: false,
    paused: false,
    snapshotOnDelete: false,
    ...more,
    runtime: { ...read.runtime, vmId, ip },
    vm: { ...read.vm, vmName: "vk-lab-demo", managed: true, ...vm },
  };
}

export function lifecycle(state: LifecycleStatus["state"], observedGeneration = 1): LifecycleStatus {
  return { state, observedGeneration, message: "" };
}

/** A machine without a VM, and a registry that answered that nothing is there. */
export function observed(more: Partial<Observed>): Observed {
  const read = more.machine ?? machine({});
  return {
    machine: read,
    desired: more.ending ? "gone" : read.hibernate ? "asleep" : "running",
    ending: undefined,
    sandbox: "none",
    snapshotsSettled: false,
    node: "here",
    vm: undefined,
    local: undefined,
    hibernated: undefined,
    stale: "unknown",
    latestSnapshotId: undefined,
    fencedNodes: [],
    heldBy: undefined,
    takenOver: undefined,
    canTakeOver: false,
    hasRegistry: true,
    canSavePaused: true,
    savedNow: undefined,
    pushedAhead: true,
    starts: { inRow: 0, failure: "" },
    probe: { running: false, result: undefined, published: false },
    wakeFinished: false,
    reported: false,
    ...more,
  };
}

export const snapshot: HibernatedSnapshot = {
  digest: "sha256:d1",
  snapshotId: "S1",
  fromNode: "here",
  baseImage: "",
  namespace: "lab",
  vmId: "VM1",
  restoredFrom: "",
  sealed: false,
  claims: [],
};
export const running: ObservedVm = { id: "VM1", state: "running", restoredFrom: "", namespace: "lab" };
export const paused: ObservedVm = { ...running, state: "paused" };
export const stopped: ObservedVm = { ...running, state: "stopped" };
export const copy = { id: "S1", vmId: "VM1" };

/** The guest answers, and the pod's status says so. */
export const ready = { running: true, result: { ok: true, message: "ping ok" }, published: true };
