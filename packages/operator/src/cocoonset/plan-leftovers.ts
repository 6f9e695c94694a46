/** What earlier steps left in the registry: snapshots that machines woke from, and snapshots of released slots. */
import { findCondition } from "@cocoon/contract";
import { mayLeaveSnapshot, readySince, type Machine } from "../pod-machine.ts";
import type { Action, Draft } from "./draft.ts";
import { allMembers } from "./members.ts";
import { extendDeleteNames, readReleasedNames, recordNames } from "./vm-names.ts";

/** The kubelet drops the snapshot itself once the machine is ready; only what is left after this time is dropped here. */
const graceMs = 30_000;

/**
 * A snapshot is dropped by its digest, after its machine was ready at the current generation for a while, and only with
 * the proof that the VM was restored from it. Any other one that is found under a running machine is reported and kept.
 */
export function planLeftovers(draft: Draft, living: readonly Machine[]): void {
  const kept = living.flatMap((machine) => {
    const digest = judgeLeftover(draft, machine);
    return digest === "" ? [] : [`${machine.vm.vmName}:hibernate (${digest})`];
  });
  reportKept(draft, kept);
}

/** The digest of a snapshot that stays although its machine runs; "" when there is none, or it is dropped. */
function judgeLeftover(draft: Draft, machine: Machine): string {
  const { vmName } = machine.vm;
  const recorded = draft.digests.get(vmName);
  if (recorded === undefined) return "";
  // It ran: that it failed does not mean that it is to be restored from where it was before.
  if (machine.failed && draft.remembered.get(vmName)?.awake) draft.digests.delete(vmName);
  if (!machine.awake || !machine.ready || machine.loading) return "";
  const leftMs = readySince(machine) + graceMs - draft.observed.now.getTime();
  if (leftMs > 0) {
    draft.requeueAfter(leftMs);
    return "";
  }
  return isReported(draft, recorded) ? recorded : dropOrKeep(draft, machine);
}

function dropOrKeep(draft: Draft, machine: Machine): string {
  const { vmName } = machine.vm;
  const tag = draft.tag(vmName);
  if (!tag) return "";
  if (tag.kind === "there" && machine.restoredDigest !== tag.digest) {
    draft.digests.set(vmName, tag.digest);
    return tag.digest;
  }
  if (tag.kind === "there") draft.do({ kind: "dropSnapshot", machine, digest: tag.digest });
  draft.digests.delete(vmName);
  return "";
}

const keptCondition = "SnapshotsKept";

/** Asked once: what the status reports as kept is not looked up again. */
function isReported({ observed }: Draft, digest: string): boolean {
  const shown = findCondition(observed.set.status?.conditions, keptCondition);
  return shown?.status === "True" && shown.message.includes(digest);
}

function reportKept(draft: Draft, kept: readonly string[]): void {
  const shown = findCondition(draft.observed.set.status?.conditions, keptCondition);
  if (kept.length === 0 && shown === undefined) return;
  draft.conditions.push({
    type: keptCondition,
    status: kept.length > 0 ? "True" : "False",
    reason: kept.length > 0 ? "NoProofOfDescent" : "NoneKept",
    message:
      kept.length > 0
        ? `the running machines are not known to be restored from these snapshots: ${kept.join(", ")}`
        : "",
    observedGeneration: draft.generation,
  });
}

/** Released slots: when their pods are gone, snapshots that they left get another name. */
export function planReleased(draft: Draft): void {
  const names = readReleasedNames(draft);
  const gone = names.filter((name) => !draft.observed.machines.some((machine) => machine.vm.vmName === name));
  if (gone.length === 0) return;
  for (const vmName of gone) {
    draft.do({ kind: "releaseSnapshot", vmName });
    draft.digests.delete(vmName);
  }
  const left = names.filter((name) => !gone.includes(name));
  draft.do(
    // Their names may be wanted again by now: the status must not point to snapshots under the old tag.
    { kind: "persistStatus" },
    recordNames(draft, { released: left }),
  );
}

/** Machines that the spec no longer requests and that have no pod, but may have a snapshot. */
function findAbandoned(draft: Draft): readonly string[] {
  const { members, machines } = draft.observed;
  const wanted = new Set([...allMembers(members), ...members.warm].map(({ vmName }) => vmName));
  const living = new Set(machines.map(({ vm }) => vm.vmName));
  const leaving = machines
    .filter((machine) => machine.terminating && machine.vm.managed && mayLeaveSnapshot(machine))
    .map(({ vm }) => vm.vmName);
  const gone = [...draft.remembered.keys()].filter((name) => !living.has(name));
  const known = readReleasedNames(draft);
  return [...leaving, ...gone].filter((name) => !wanted.has(name) && !known.includes(name));
}

/** Notes machines that went by themselves, in a round of its own: no status forgets them before. False: there are none. */
export function recordAbandoned(draft: Draft): boolean {
  const names = findAbandoned(draft);
  if (names.length > 0) draft.do(recordReleased(draft, names));
  return names.length > 0;
}

/** The steps that give machines up: their names are noted before their pods go. */
export function releaseMachines(draft: Draft, machines: readonly Machine[], why: string): void {
  const managed = machines.filter((machine) => machine.vm.managed && machine.role !== "warm");
  const names = managed.map(({ vm }) => vm.vmName);
  // One that is awake may be evicted at this very moment, and then its kubelet leaves a copy too.
  if (names.length > 0) draft.do(recordReleased(draft, names));
  else planReleased(draft); // in a round of its own: its note knows nothing of names that are noted now
  for (const machine of machines)
    draft.do({ kind: "deletePod", machine, why, ifUnchanged: machine.role === "warm" });
}

function recordReleased(draft: Draft, names: readonly string[]): Action {
  return recordNames(draft, {
    deleted: extendDeleteNames(draft, names),
    released: [...readReleasedNames(draft), ...names],
  });
}
