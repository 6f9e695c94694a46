/**
 * What to do next with one machine. Pure: everything that was seen goes in, one step comes out; after the step has
 * been done, everything is looked at again. So a process that dies anywhere goes on where the evidence says.
 *
 *   asleep wanted   VM runs      announce -> (drop stale copy) -> save, VM stays paused
 *                   VM paused    push -> record digest -> clear id -> remove VM
 *                   VM stopped   start, unless what was pushed is where it stopped: go on as if paused
 *                   no VM        record -> clear id -> seal -> publish hibernated
 *   awake wanted    VM paused    drop the local copy -> resume (the tag goes once it is ready)
 *                   VM stopped   start, unless what was pushed is where it stopped: remove VM
 *                   VM runs      settled; ready, then the tag is dropped by digest
 *                   no VM        restore what sleeps, else boot fresh
 */
import type { LifecycleState, LifecycleStatus } from "@cocoon/contract";
import type { VmState } from "@cocoon/vm";
import type { Machine } from "../machine.ts";

export interface SeenVm {
  readonly id: string;
  readonly state: VmState;
}

/** The snapshot that the tag `hibernate` names. */
export interface SleepingSnapshot {
  readonly digest: string;
  readonly snapshotId: string;
  readonly fromNode: string;
  readonly baseImage: string;
}

export interface Seen {
  readonly machine: Machine;
  readonly node: string;
  readonly vm: SeenVm | undefined;
  /** The local snapshot with the machine's name. */
  readonly local: { readonly id: string; readonly vmId: string | undefined } | undefined;
  /** Undefined: surely not there. `unasked`: not needed, or no registry is configured. */
  readonly tag: SleepingSnapshot | undefined | "unasked";
  /** Digest of what the old node sealed: its VM is proven gone. */
  readonly sealedDigest: string | undefined;
  /** The node the snapshot came from can no longer run it. */
  readonly fromNodeFenced: boolean;
  readonly hasRegistry: boolean;
  /** A save can leave the VM standing still. Where not, only a copy made just now counts as where the VM is. */
  readonly freezes: boolean;
  /** Id of the copy that this process made last, in this attempt to put the machine to sleep. */
  readonly savedNow: string | undefined;
}

export type Step =
  | { readonly kind: "settled" }
  | {
      readonly kind: "refuse";
      readonly reason: string;
      readonly message: string;
      /** Somebody else is expected to change that: look again soon. */
      readonly waits?: boolean;
    }
  | { readonly kind: "announce"; readonly state: LifecycleState }
  | { readonly kind: "dropLocal" }
  | { readonly kind: "save"; readonly vmId: string }
  | { readonly kind: "push" }
  | { readonly kind: "record"; readonly digest: string }
  | { readonly kind: "clearId" }
  | { readonly kind: "remove"; readonly vmId: string }
  | { readonly kind: "seal"; readonly digest: string }
  | { readonly kind: "resume"; readonly vmId: string }
  | { readonly kind: "start"; readonly vmId: string }
  | { readonly kind: "adoptStatic" }
  | { readonly kind: "restore"; readonly snapshot: SleepingSnapshot }
  | { readonly kind: "cloneFromDir"; readonly directory: string }
  | { readonly kind: "fork"; readonly source: string }
  | { readonly kind: "run" }
  | { readonly kind: "clone" }
  | { readonly kind: "decideMode" };

const settled: Step = { kind: "settled" };

export function planMachine(seen: Seen): Step {
  if (!seen.machine.vm.managed) return planStatic(seen.machine);
  return seen.machine.sleep ? planSleep(seen) : planAwake(seen);
}

/** A machine of somebody else: it is shown, never touched. */
function planStatic(machine: Machine): Step {
  if (machine.vmId !== "" && machine.ip !== "") return { kind: "adoptStatic" };
  const message = `unmanaged vm ${machine.vm.vmName} missing pre-assigned IP/VMID`;
  return { kind: "refuse", reason: "StaticVmIncomplete", message };
}

export function planSleep(seen: Seen): Step {
  const { vm, machine } = seen;
  if (!seen.hasRegistry)
    return {
      kind: "refuse",
      reason: "HibernateUnsupported",
      message: "no registry is configured, so there is no place to sleep in; set OCI_REGISTRY or EPOCH_URL",
    };
  return vm ? planFallingAsleep(seen, vm) : planAsleep(seen, machine);
}

/**
 * The host died after the push and before the VM was removed: the copy that sleeps is where the VM stood, and it has not
 * run since, because its local copy is dropped before it goes on. Booting its disk would lose its memory, and the next
 * save would overwrite the copy that has it.
 */
function diedAfterPush({ local, tag, freezes }: Seen, vm: SeenVm): boolean {
  if (isLive(vm) || !freezes || tag === undefined || tag === "unasked") return false;
  return local?.vmId === vm.id && local.id === tag.snapshotId;
}

export function isLive({ state }: Pick<SeenVm, "state">): boolean {
  return state === "running" || state === "paused";
}

/** Until there is a local copy that is exactly where the VM stands; undefined when there is. */
export function planSave(seen: Seen, vm: SeenVm): Step | undefined {
  const { local, freezes, savedNow } = seen;
  if (diedAfterPush(seen, vm)) return undefined;
  if (!isLive(vm)) return { kind: "start", vmId: vm.id };
  const exact = freezes ? vm.state === "paused" && local?.vmId === vm.id : local?.id === savedNow;
  if (local && !exact) return { kind: "dropLocal" };
  return local ? undefined : { kind: "save", vmId: vm.id };
}

function planFallingAsleep(seen: Seen, vm: SeenVm): Step {
  const { machine, local, tag } = seen;
  if (!reports(machine, "hibernating")) return { kind: "announce", state: "hibernating" };
  const saving = planSave(seen, vm);
  if (saving || !local) return saving ?? settled;
  if (tag === undefined || tag === "unasked" || tag.snapshotId !== local.id) return { kind: "push" };
  if (machine.recordedDigest !== tag.digest) return { kind: "record", digest: tag.digest };
  if (machine.vmId !== "" || machine.ip !== "") return { kind: "clearId" };
  return { kind: "remove", vmId: vm.id };
}

function planAsleep(seen: Seen, machine: Machine): Step {
  const { tag, sealedDigest } = seen;
  if (isSettledAsleep(machine)) return settled;
  if (tag === undefined || tag === "unasked") {
    const slept = machine.recordedDigest !== "" || isAsleep(machine.lifecycle);
    return slept ? lost(machine) : planFresh(seen);
  }
  if (sealedDigest !== tag.digest) {
    const trouble = unprovenOwner(seen, tag);
    if (trouble) return trouble;
  }
  if (machine.recordedDigest !== tag.digest) return { kind: "record", digest: tag.digest };
  if (machine.vmId !== "" || machine.ip !== "") return { kind: "clearId" };
  if (sealedDigest !== tag.digest) return { kind: "seal", digest: tag.digest };
  if (!reports(machine, "hibernated")) return { kind: "announce", state: "hibernated" };
  return settled;
}

function planAwake(seen: Seen): Step {
  const { vm, machine } = seen;
  return vm ? planLive(seen, vm) : planComingUp(seen, machine);
}

function planLive(seen: Seen, vm: SeenVm): Step {
  const { local, machine, freezes } = seen;
  // A new attempt after a failure or a sleep: only then may `ready` follow.
  if (!["", "creating", "ready"].includes(machine.lifecycle.state))
    return { kind: "announce", state: "creating" };
  // Gone, and restored from where it slept.
  if (diedAfterPush(seen, vm)) return { kind: "remove", vmId: vm.id };
  // The copy is where the VM stands now. Once it goes on, the copy is old, and may never be taken for new.
  if (local && (local.vmId === vm.id || !freezes)) return { kind: "dropLocal" };
  if (vm.state === "paused") return { kind: "resume", vmId: vm.id };
  return vm.state === "running" ? settled : { kind: "start", vmId: vm.id };
}

function planComingUp(seen: Seen, machine: Machine): Step {
  const { tag } = seen;
  if (tag !== undefined && tag !== "unasked") {
    return unprovenOwner(seen, tag) ?? wrongBase(machine, tag) ?? planRestore(machine, tag);
  }
  const mustRestore = machine.restoreMarked && !hasLived(machine);
  if (machine.recordedDigest !== "" || isAsleep(machine.lifecycle) || mustRestore) return lost(machine);
  if (hasLived(machine))
    return {
      kind: "refuse",
      reason: "VMGone",
      message: `VM ${machine.vm.vmName} (${machine.vmId}) is not on this node any more, and no snapshot of it sleeps`,
    };
  return planFresh(seen);
}

function planRestore(machine: Machine, tag: SleepingSnapshot): Step {
  if (machine.recordedDigest !== tag.digest) return { kind: "record", digest: tag.digest };
  if (!reports(machine, "creating")) return { kind: "announce", state: "creating" };
  return { kind: "restore", snapshot: tag };
}

/**
 * The bring-up order when nothing lives and nothing sleeps. A machine of which nothing was said yet is announced only if
 * it takes time: most say `ready` with their first write.
 */
function planFresh(seen: Seen): Step {
  const { machine } = seen;
  if (machine.lifecycle.state !== "" && !reports(machine, "creating"))
    return { kind: "announce", state: "creating" };
  if (machine.cloneFromDir !== "") {
    if (machine.mode === "run" || machine.vm.forkFrom !== "")
      return {
        kind: "refuse",
        reason: "CreateBringUpFailed",
        message: "clone-from-dir cannot be combined with mode run or fork-from; remove one of them",
      };
    return { kind: "cloneFromDir", directory: machine.cloneFromDir };
  }
  if (machine.vm.forkFrom !== "") return { kind: "fork", source: machine.vm.forkFrom };
  if (machine.mode === "run") return { kind: "run" };
  if (machine.mode === "clone" || machine.mode === "static") return { kind: "clone" };
  return { kind: "decideMode" };
}

/**
 * A machine may wake here only when the VM it was is proven gone: this node made the snapshot and has no VM; or the
 * old node sealed it after the removal; or the pod carries the digest, which is written only of a machine that
 * sleeps; or the operator marked the pod; or the old node is fenced.
 */
function unprovenOwner(seen: Seen, tag: SleepingSnapshot): Step | undefined {
  const { machine, node, sealedDigest, fromNodeFenced } = seen;
  const proven =
    tag.fromNode === "" ||
    tag.fromNode === node ||
    sealedDigest === tag.digest ||
    machine.recordedDigest === tag.digest ||
    machine.restoreMarked ||
    fromNodeFenced;
  if (proven) return undefined;
  return {
    kind: "refuse",
    waits: true,
    reason: "HibernateEvidenceUnavailable",
    message: `machine ${machine.vm.vmName} was put to sleep on node ${tag.fromNode}, which has not confirmed that its VM is gone; waiting for it, or fence it with the out-of-service taint`,
  };
}

/** An image that is not the one the machine came from means another machine: overwriting it would lose the old one. */
function wrongBase(machine: Machine, tag: SleepingSnapshot): Step | undefined {
  if (tag.baseImage === "" || machine.vm.image === "" || tag.baseImage === machine.vm.image) return undefined;
  return {
    kind: "refuse",
    reason: "HibernateSnapshotExists",
    message: `${machine.vm.vmName} sleeps in ${tag.digest}, made from ${tag.baseImage}, but the pod asks for ${machine.vm.image}; wake it with its own image, or release the snapshot`,
  };
}

function lost(machine: Machine): Step {
  return {
    kind: "refuse",
    reason: "HibernateEvidenceFailed",
    message: `${machine.vm.vmName} should sleep in ${machine.recordedDigest || "the registry"}, but tag hibernate is not there; nothing is booted in its place`,
  };
}

/** Everything of the sleep was done and published: the registry need not be asked again. */
export function isSettledAsleep(machine: Machine): boolean {
  return (
    machine.sleep &&
    machine.recordedDigest !== "" &&
    machine.vmId === "" &&
    machine.ip === "" &&
    reports(machine, "hibernated")
  );
}

function isAsleep(lifecycle: LifecycleStatus): boolean {
  return lifecycle.state === "hibernated";
}

/** An id is written only of a VM that ran. */
function hasLived(machine: Machine): boolean {
  return machine.vmId !== "";
}

function reports(machine: Machine, state: LifecycleState): boolean {
  return machine.lifecycle.state === state && machine.lifecycle.observedGeneration >= machine.generation;
}
