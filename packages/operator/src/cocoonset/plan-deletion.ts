/**
 * The set is being deleted: its machines' names are noted, the pods go (the kubelets push what the policy wants), and
 * when none is left the snapshots are settled and the finalizer goes.
 */
import {
  extendDeleteList,
  roleOfSlot,
  setAnnotation,
  shouldSnapshot,
  slotOf,
  writeDeleteList,
} from "@cocoon/contract";
import type { Draft, SetPlan } from "./draft.ts";
import { allMembers, keyOfSet } from "./members.ts";

export function planDeletion(draft: Draft): SetPlan {
  const { set, machines } = draft.world;
  const phase = set.status?.phase ?? "Pending";
  const names = extendDeleteList(set.metadata.annotations, [
    ...draft.remembered.keys(),
    ...allMembers(draft.world.members)
      .filter(({ vm }) => vm.managed)
      .map(({ vmName }) => vmName),
    ...machines.filter(({ vm }) => vm.managed).map(({ vm }) => vm.vmName),
  ]);
  const text = writeDeleteList(names);
  if (text !== (set.metadata.annotations?.[setAnnotation.deleteVmNames] ?? ""))
    draft.do({ kind: "annotateSet", wanted: { [setAnnotation.deleteVmNames]: text } });
  for (const machine of machines)
    if (!machine.terminating) draft.do({ kind: "deletePod", machine, why: "its set is being deleted" });
  if (machines.length > 0) return draft.finish(phase);
  draft.do(
    {
      kind: "settleSnapshots",
      vmNames: names,
      keep: keptNames(draft, names),
      purge: set.spec.deletionPolicy === "Purge",
    },
    { kind: "removeFinalizer" },
  );
  return draft.finish(phase);
}

/** Machines that the policy wants a snapshot of: by their exact slot, never by how a name ends. */
function keptNames({ world }: Draft, names: readonly string[]): readonly string[] {
  const key = keyOfSet(world.set);
  const { snapshotPolicy } = world.set.spec;
  return names.filter((name) => shouldSnapshot(snapshotPolicy, roleOfSlot(slotOf(key, name))));
}
