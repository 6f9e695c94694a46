/** Towards a hibernated machine: save, push, record, remove the VM, seal. Pure. */
import { checkOwner, refuseLost, refuseVmGone } from "./check-owner.ts";
import { diedAfterPush, hasRun, isSettledAsleep, reports } from "./machine-state.ts";
import { getFound, isLive, type Observed, type ObservedVm } from "./observed.ts";
import { planFresh, planStart } from "./plan-boot.ts";
import { settled, type Step } from "./step.ts";

export function planAsleep(observed: Observed): Step {
  if (observed.machine.isMacos)
    return {
      kind: "refuse",
      reason: "HibernateUnsupported",
      message: "a macOS guest has no memory snapshot, so it cannot hibernate; it keeps running",
    };
  if (!observed.hasRegistry)
    return {
      kind: "refuse",
      reason: "HibernateUnsupported",
      message: "no registry is configured to hibernate to; set OCI_REGISTRY or EPOCH_URL",
    };
  return observed.vm ? planHibernating(observed, observed.vm) : planHibernated(observed);
}

function planHibernating(observed: Observed, vm: ObservedVm): Step {
  const { machine, local } = observed;
  if (!reports(machine, "hibernating")) return { kind: "announce", state: "hibernating" };
  const saving = planBeforeSave(observed, vm) ?? planSave(observed, vm);
  if (saving || !local) return saving ?? settled;
  const pushed = getFound(observed.hibernated);
  if (pushed?.snapshotId !== local.id) return { kind: "push" };
  if (machine.recordedDigest !== pushed.digest) return { kind: "record", digest: pushed.digest };
  if (machine.runtime.vmId !== "" || machine.runtime.ip !== "") return { kind: "clearId" };
  return { kind: "remove", vmId: vm.id };
}

/** While the machine still runs: all of it must be here, and what it has is sent ahead. */
function planBeforeSave({ local, pushedAhead, canSavePaused }: Observed, vm: ObservedVm): Step | undefined {
  if (!isLive(vm)) return undefined;
  // A save would wait for the rest, and nothing could cancel the hibernation meanwhile.
  if (vm.loading) return { kind: "wait", why: "its memory and disks are still coming from the registry" };
  const isFirst = vm.state === "running" && !local && !pushedAhead;
  return isFirst && canSavePaused ? { kind: "pushAhead", vmId: vm.id } : undefined;
}

/** Until there is a local snapshot that is exactly where the VM is; undefined when there is. */
export function planSave(observed: Observed, vm: ObservedVm): Step | undefined {
  const { local, canSavePaused, savedNow } = observed;
  if (diedAfterPush(observed, vm)) return undefined;
  if (!isLive(vm)) return planStart(observed, vm);
  const exact = canSavePaused ? vm.state === "paused" && local?.vmId === vm.id : local?.id === savedNow;
  if (local && !exact) return { kind: "dropLocal" };
  return local ? undefined : { kind: "save", vmId: vm.id };
}

function planHibernated(observed: Observed): Step {
  const { machine, node } = observed;
  if (isSettledAsleep(machine)) return { kind: "showAsleep" };
  const snapshot = getFound(observed.hibernated);
  if (!snapshot) {
    if (machine.recordedDigest !== "" || machine.lifecycle.state === "hibernated") return refuseLost(machine);
    // A machine that ran and is not here must not be replaced by an empty one that is then published as its snapshot.
    return hasRun(machine) ? refuseVmGone(machine) : planFresh(observed);
  }
  const problem = checkOwner(observed, snapshot);
  if (problem) return problem;
  if (machine.recordedDigest !== snapshot.digest) return { kind: "record", digest: snapshot.digest };
  if (machine.runtime.vmId !== "" || machine.runtime.ip !== "") return { kind: "clearId" };
  if (!snapshot.sealed || snapshot.claims.includes(node)) return { kind: "seal", digest: snapshot.digest };
  // A failure is replaced by a new attempt only: announced as hibernated it would stay, and be announced for ever.
  const failed = machine.lifecycle.state === "failed";
  if (!reports(machine, "hibernated"))
    return { kind: "announce", state: failed ? "hibernating" : "hibernated" };
  return { kind: "showAsleep" };
}
