/**
 * The end of a machine whose pod is gone or terminating. A requested deletion ends the machine, after a snapshot `latest`
 * where the policy asks for one; a disruption, a pod that was to hibernate anyway, and a pod whose Sandbox lives on end asleep. The VM is removed only
 * when what must be kept of it was read back from the registry. Pure.
 */
import { diedAfterPush, endsAsleep } from "./machine-state.ts";
import { getFound, isLive, isOrigin, type Observed, type ObservedVm } from "./observed.ts";
import { planAsleep, planSave } from "./plan-hibernate.ts";
import { settled, type Step } from "./step.ts";

export function planGone(observed: Observed): Step {
  if (endsAsleep(observed)) return planEndAsleep(observed);
  if (!observed.vm) return planRest(observed);
  // What cannot leave a snapshot stays on the node: the next pod of the machine adopts it.
  if (observed.machine.isMacos && observed.ending === "forceDeleted") return settled;
  return planEnd(observed, observed.vm);
}

function planEnd(observed: Observed, vm: ObservedVm): Step {
  const { machine, local, stale } = observed;
  const keeps = wantsSnapshot(observed);
  if (keeps) {
    const saving = canSaveAsIs(observed, vm) ? planSaveDisks(observed, vm) : planSave(observed, vm);
    if (saving) return saving;
    if (observed.latestSnapshotId !== local?.id) return { kind: "pushLatest" };
  }
  // The machine continued from there: its next pod must not find the old state under its name.
  if (stale === "unavailable") return { kind: "wait", why: "the registry does not answer" };
  if (stale && stale !== "unknown" && machine.lifecycle.state === "ready") {
    const { digest } = stale;
    // No newer snapshot exists where none is kept: it is the last copy, so it is renamed.
    if (isOrigin(vm, stale)) return { kind: keeps ? "dropTag" : "releaseTag", digest };
    if (!observed.reported) return { kind: "reportSnapshot", digest };
  }
  return { kind: "remove", vmId: vm.id };
}

/** A VM that does not run is not booted for its last snapshot: one that cannot boot would keep its pod for ever. */
function canSaveAsIs(observed: Observed, vm: ObservedVm): boolean {
  return !isLive(vm) && observed.canSavePaused && !diedAfterPush(observed, vm);
}

function planSaveDisks({ local, savedNow }: Observed, vm: ObservedVm): Step | undefined {
  if (local && local.id !== savedNow) return { kind: "dropLocal" };
  return local ? undefined : { kind: "save", vmId: vm.id, disksOnly: true };
}

/** Of a macOS guest there is none to take. */
function wantsSnapshot({ machine, hasRegistry, ending }: Observed): boolean {
  return hasRegistry && !machine.isMacos && (machine.snapshotOnDelete || ending === "forceDeleted");
}

/** The VM is gone: a claim that was not used is given back, and nothing stays on the node. */
function planRest({ machine, local, hibernated, node, sandbox, ...observed }: Observed): Step {
  // No later pod can wake it: no other machine ever has this name.
  if (sandbox === "ended" && observed.hasRegistry && !observed.snapshotsSettled)
    return { kind: "settleSnapshots" };
  const claimed = getFound(hibernated);
  if (claimed?.claims.includes(node)) return { kind: "seal", digest: claimed.digest };
  return local && !machine.keepSnapshot ? { kind: "dropLocal" } : settled;
}

function planEndAsleep(observed: Observed): Step {
  const { vm, hibernated, machine } = observed;
  if (!vm && !getFound(hibernated)) return planRest(observed);
  const step = planAsleep({ ...observed, machine: { ...machine, hibernate: true } });
  // What cannot hibernate is kept: its end was not requested.
  const done = step.kind === "showAsleep" || step.kind === "settled";
  if (!done && (vm || step.kind !== "refuse")) return step;
  return vm ? settled : planRest(observed);
}
