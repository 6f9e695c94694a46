/** Towards a running machine: claim and restore, or boot; probe, publish, and drop what it was restored from. Pure. */
import type { HibernatedSnapshot } from "@cocoon/machine";
import type { PodMachine } from "../pod-machine.ts";
import { checkOwner, refuseHeld, refuseLost, refuseVmGone } from "./check-owner.ts";
import { diedAfterPush, hasRun, reports } from "./machine-state.ts";
import { getFound, isOrigin, type Observed, type ObservedVm } from "./observed.ts";
import { planFresh, planStart } from "./plan-boot.ts";
import { settled, type Step } from "./step.ts";

export function planRunning(observed: Observed): Step {
  return observed.vm ? planLive(observed, observed.vm) : planComingUp(observed);
}

function planLive(observed: Observed, vm: ObservedVm): Step {
  const { local, machine, canSavePaused } = observed;
  // A new attempt after a failure or a hibernation: only then may `ready` follow.
  if (!["", "creating", "ready"].includes(machine.lifecycle.state))
    return { kind: "announce", state: "creating" };
  // Removed, and restored from its snapshot.
  if (diedAfterPush(observed, vm)) return { kind: "remove", vmId: vm.id };
  // The local snapshot is where the VM is now. Once the VM continues it is old, and must never be taken for new.
  if (local && (local.vmId === vm.id || !canSavePaused)) return { kind: "dropLocal" };
  if (vm.state === "paused") return standsStill(observed) ? settled : { kind: "resume", vmId: vm.id };
  return vm.state === "running" ? planReady(observed, vm) : planStart(observed, vm);
}

/** It was ready before it was paused, as this process saw, and nothing has called it back. */
function standsStill({ machine, wakeFinished }: Observed): boolean {
  return machine.pause && machine.paused && wakeFinished && reports(machine, "ready");
}

function planReady(observed: Observed, vm: ObservedVm): Step {
  const { machine, probe } = observed;
  if (!probe.running) return { kind: "probe" };
  if (!probe.result) return settled;
  if (!probe.published || (probe.result.ok && !reports(machine, "ready"))) return { kind: "publish" };
  const requested = probe.result.ok ? planRequests(observed, vm) : undefined;
  if (requested) return requested;
  // Until everything is here, the snapshot in the registry is the machine's only whole copy.
  if (!probe.result.ok || vm.loading) return settled;
  if (machine.loading) return { kind: "announceLocal" };
  if (!observed.wakeFinished) return planWakeEnd(observed, vm);
  return machine.pause ? { kind: "pause", vmId: vm.id } : settled;
}

/** What is asked of a machine that runs. */
function planRequests({ machine, hasRegistry }: Observed, vm: ObservedVm): Step | undefined {
  if (machine.env && !machine.env.applied) return { kind: "setEnvironment" };
  if (machine.paused && !machine.pause) return { kind: "clearPaused" };
  if (machine.snapshotRequest === "" || vm.loading || !hasRegistry) return undefined;
  return { kind: "saveNamed", vmId: vm.id, name: machine.snapshotRequest };
}

/**
 * The machine is ready at the current generation. Only the snapshot that this VM was restored from may be dropped; any other
 * is the only copy of a machine that this VM is not.
 */
function planWakeEnd({ stale }: Observed, vm: ObservedVm): Step {
  if (stale === "unavailable") return { kind: "wait", why: "the registry does not answer" };
  if (stale === undefined || stale === "unknown") return { kind: "clearDigest" };
  const { digest } = stale;
  return isOrigin(vm, stale) ? { kind: "dropTag", digest } : { kind: "reportSnapshot", digest };
}

/** The pod names a PodSnapshot to start from. */
function planRewind(observed: Observed, snapshot: HibernatedSnapshot | undefined): Step | undefined {
  const { machine, hasRegistry } = observed;
  if (machine.rewindTo === "" || !hasRegistry || hasRun(machine)) return undefined;
  const problem = snapshot && checkOwner(observed, snapshot);
  return problem ?? { kind: "rewind", name: machine.rewindTo };
}

function planComingUp(observed: Observed): Step {
  const { machine, takenOver } = observed;
  if (takenOver !== undefined && !hasRun(machine)) return { kind: "takeName", vmName: takenOver };
  const snapshot = getFound(observed.hibernated);
  const rewound = planRewind(observed, snapshot);
  if (rewound) return rewound;
  if (snapshot)
    return checkOwner(observed, snapshot) ?? checkBase(machine, snapshot) ?? planRestore(observed, snapshot);
  const mustRestore = machine.restoreMarked && !hasRun(machine);
  if (machine.recordedDigest !== "" || machine.lifecycle.state === "hibernated" || mustRestore)
    return refuseLost(machine);
  if (hasRun(machine)) return refuseVmGone(machine);
  return observed.heldBy ? refuseHeld(machine, observed.heldBy) : planFresh(observed);
}

/** The claim is in the registry before the VM exists: no other node can take the same snapshot for free meanwhile. */
function planRestore({ machine, node }: Observed, snapshot: HibernatedSnapshot): Step {
  const { digest } = snapshot;
  if (machine.recordedDigest !== digest) return { kind: "record", digest };
  if (!reports(machine, "creating")) return { kind: "announce", state: "creating" };
  if (!snapshot.claims.includes(node)) return { kind: "claim", digest };
  return { kind: "restore", snapshot };
}

/** Another image means another machine: overwriting the snapshot would lose the old one. */
function checkBase(machine: PodMachine, { digest, baseImage }: HibernatedSnapshot): Step | undefined {
  if (baseImage === "" || machine.vm.image === "" || baseImage === machine.vm.image) return undefined;
  // The template of a Sandbox was changed while it was suspended: only a boot can follow it.
  if (machine.ofSandbox && machine.recordedDigest === "") return { kind: "releaseTag", digest };
  return {
    kind: "refuse",
    reason: "HibernateSnapshotExists",
    message: `${machine.vm.vmName} is hibernated in ${digest}, made from ${baseImage}, but the pod asks for ${machine.vm.image}; wake it with its own image, or release the snapshot`,
  };
}
