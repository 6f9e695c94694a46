/** What earlier steps left in the registry: copies that machines woke from, and copies of machines that were given up. */
import { extendDeleteList, setAnnotation, writeDeleteList } from "@cocoon/contract";
import { mayLeaveCopy, readySince, type Machine } from "../machine.ts";
import type { Action, Draft } from "./draft.ts";
import { allMembers } from "./members.ts";
import { releasedNames } from "./plan-creation.ts";

/** The kubelet drops the copy itself once the machine is ready; only what is left after this time is ours to drop. */
const graceMs = 30_000;

/** A copy goes only by its digest, after its machine was ready for the newest wish, and stayed so for a while. */
export function planLeftovers(draft: Draft, living: readonly Machine[]): void {
  const { now } = draft.world;
  for (const machine of living) {
    const { vmName } = machine.vm;
    const digest = draft.digests.get(vmName);
    if (digest === undefined || !machine.awake || !machine.ready) continue;
    const leftMs = readySince(machine) + graceMs - now.getTime();
    if (leftMs > 0) {
      draft.lookAgain(leftMs);
      continue;
    }
    const tag = draft.tag(vmName);
    if (!tag) continue;
    if (tag.kind === "there" && tag.digest === digest) draft.do({ kind: "dropSleeping", vmName, digest });
    draft.digests.delete(vmName);
  }
}

/** Machines that were given up: when their pods are gone, copies that they left get another name. */
export function planReleased(draft: Draft): void {
  const names = releasedNames(draft);
  const gone = names.filter((name) => !draft.world.machines.some((machine) => machine.vm.vmName === name));
  if (gone.length === 0) return;
  for (const vmName of gone) {
    draft.do({ kind: "releaseSleeping", vmName });
    draft.digests.delete(vmName);
  }
  const left = names.filter((name) => !gone.includes(name));
  draft.do(
    // Their names may be wanted again by now: nobody must look for their copies under the old one.
    { kind: "persistStatus" },
    {
      kind: "annotateSet",
      wanted: { [setAnnotation.releasedVmNames]: left.length === 0 ? null : writeDeleteList(left) },
    },
  );
}

/** Machines that the spec no longer asks for and that have no pod to give up, but may have a copy. */
function forsaken(draft: Draft): readonly string[] {
  const { members, machines } = draft.world;
  const wanted = new Set([...allMembers(members), ...members.warm].map(({ vmName }) => vmName));
  const living = new Set(machines.map(({ vm }) => vm.vmName));
  const leaving = machines
    .filter((machine) => machine.terminating && machine.vm.managed && mayLeaveCopy(machine))
    .map(({ vm }) => vm.vmName);
  const gone = [...draft.remembered.keys()].filter((name) => !living.has(name));
  const known = releasedNames(draft);
  return [...leaving, ...gone].filter((name) => !wanted.has(name) && !known.includes(name));
}

/** Notes machines that went by themselves, in a round of its own: no status forgets them before. False: there are none. */
export function noteForsaken(draft: Draft): boolean {
  const names = forsaken(draft);
  if (names.length > 0) draft.do(noteOf(draft, names));
  return names.length > 0;
}

/** The steps that give machines up: their names are noted before their pods go. */
export function giveUp(draft: Draft, machines: readonly Machine[], why: string): void {
  const managed = machines.filter((machine) => machine.vm.managed && machine.role !== "warm");
  const names = managed.map(({ vm }) => vm.vmName);
  // One that is awake may be evicted at this very moment, and then its kubelet leaves a copy too.
  if (names.length > 0) draft.do(noteOf(draft, names));
  else planReleased(draft); // in a round of its own: its note knows nothing of names that are noted now
  for (const machine of machines) draft.do({ kind: "deletePod", machine, why });
}

function noteOf(draft: Draft, names: readonly string[]): Action {
  const { annotations } = draft.world.set.metadata;
  return {
    kind: "annotateSet",
    wanted: {
      [setAnnotation.deleteVmNames]: writeDeleteList(extendDeleteList(annotations, names)),
      [setAnnotation.releasedVmNames]: writeDeleteList([...releasedNames(draft), ...names]),
    },
  };
}
