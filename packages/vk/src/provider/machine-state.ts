/** What the observed state of a machine means, where several plans need it. Pure. */
import type { LifecycleState } from "@cocoon/contract";
import type { PodMachine } from "../pod-machine.ts";
import { getFound, isLive, type Observed, type ObservedVm } from "./observed.ts";

/** An id is written only of a VM that ran, and these states only of a machine that had one. */
export function hasRun({ runtime, lifecycle }: PodMachine): boolean {
  return runtime.vmId !== "" || lifecycle.state === "ready" || lifecycle.state === "hibernating";
}

/** The lifecycle state is published at the current generation. */
export function reports(machine: PodMachine, state: LifecycleState): boolean {
  return machine.lifecycle.state === state && machine.lifecycle.observedGeneration >= machine.generation;
}

/** Everything of the hibernation was done and published: no lookup in the registry is needed. */
export function isSettledAsleep(machine: PodMachine): boolean {
  return (
    machine.hibernate &&
    machine.recordedDigest !== "" &&
    machine.runtime.vmId === "" &&
    machine.runtime.ip === "" &&
    reports(machine, "hibernated")
  );
}

/** Whether the machine is to be hibernated instead of ended. */
export function endsAsleep({ machine, sandbox }: Pick<Observed, "machine" | "sandbox">): boolean {
  // Whatever disrupted the pod, the end of its Sandbox is the machine's end.
  if (sandbox !== "none") return sandbox === "alive";
  return machine.disrupted || machine.hibernate;
}

/**
 * The host died after the push and before the VM was removed: the hibernated snapshot is where the VM was, and the VM has not
 * run since, because its local snapshot is dropped before it continues. Booting its disk would lose its memory, and the next
 * save would overwrite the snapshot that has it.
 */
export function diedAfterPush({ local, hibernated, canSavePaused }: Observed, vm: ObservedVm): boolean {
  const pushed = getFound(hibernated);
  if (isLive(vm) || !canSavePaused || !pushed) return false;
  return local?.vmId === vm.id && local.id === pushed.snapshotId;
}

/**
 * A lazily woken VM ended before its guest had answered and before all of it was here. The snapshot is still the machine's
 * whole copy, memory included, and nothing that the VM did was seen. One that has answered boots its own disk, as after any
 * other crash: what its guest wrote there may be relied on.
 */
export function diedWhileWaking({ hibernated, machine }: Observed, vm: ObservedVm): boolean {
  if (isLive(vm) || !vm.loading || vm.hasAnswered !== false) return false;
  if (machine.lifecycle.state === "ready") return false;
  const snapshot = getFound(hibernated);
  return snapshot !== undefined && snapshot.digest === vm.restoredFrom;
}
