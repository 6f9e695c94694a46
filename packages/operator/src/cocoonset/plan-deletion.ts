/**
 * The set is terminating: the names of its machines are recorded, the pods are deleted (the kubelets push what the
 * policy requires), and when none is left the snapshots are settled and the finalizer is removed.
 */
import { readDeleteList, getSlotRole, shouldSnapshot, findSlot } from "@cocoon/contract";
import type { Draft, SetPlan } from "./draft.ts";
import { allMembers, getSetKey } from "./members.ts";
import { extendDeleteNames, recordNames } from "./vm-names.ts";

export function planDeletion(draft: Draft): SetPlan {
  const { set, machines } = draft.observed;
  const phase = set.status?.phase ?? "Pending";
  const names = findOwnNames(draft);
  if (isNew(draft, names)) draft.do(recordNames(draft, { deleted: names }));
  for (const machine of machines)
    if (!machine.terminating)
      draft.do({ kind: "deletePod", machine, why: "its set is terminating", ifUnchanged: false });
  if (machines.length > 0) return draft.finish(phase);
  const keep = findKeptNames(draft, names);
  const purge = set.spec.deletionPolicy === "Purge";
  draft.do({ kind: "settleSnapshots", vmNames: names, keep, purge }, { kind: "removeFinalizer" });
  return draft.finish(phase);
}

/** Names that neither the status nor the list has: without a record they would be forgotten with their pods. */
function isNew({ remembered, observed }: Draft, names: readonly string[]): boolean {
  const { annotations } = observed.set.metadata;
  const recorded = new Set([...remembered.keys(), ...readDeleteList(annotations)]);
  return names.some((name) => !recorded.has(name));
}

function findOwnNames(draft: Draft): readonly string[] {
  const { members, machines, isClaimedElsewhere } = draft.observed;
  const names = [
    ...draft.remembered.keys(),
    ...[...allMembers(members), ...machines].filter(({ vm }) => vm.managed).map(({ vm }) => vm.vmName),
  ];
  // A set whose name collides with another one's may never have had the machine.
  return extendDeleteNames(
    draft,
    names.filter((name) => !isClaimedElsewhere(name)),
  );
}

/** Machines that the policy requires a snapshot of: by their exact slot, never by how a name ends. */
function findKeptNames({ observed }: Draft, names: readonly string[]): readonly string[] {
  const key = getSetKey(observed.set);
  const { snapshotPolicy } = observed.set.spec;
  return names.filter((name) => shouldSnapshot(snapshotPolicy, getSlotRole(findSlot(key, name))));
}
