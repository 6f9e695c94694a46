/**
 * The lists of VM names in a set's annotations. A list may have come with a copy of another set's YAML: a name is
 * believed only when this set can own it. The uid next to the lists says who wrote them; without it, or in a copy,
 * only slots of this set and toolboxes in its spec or status count.
 */
import {
  extendDeleteList,
  readDeleteList,
  setAnnotation,
  findSlot,
  vmName,
  writeDeleteList,
} from "@cocoon/contract";
import type { Action, Draft } from "./draft.ts";
import { allMembers, getSetKey } from "./members.ts";

/** Names whose snapshots are considered when the set is deleted. */
function readDeleteNames(draft: Draft): readonly string[] {
  return readDeleteList(draft.observed.set.metadata.annotations).filter((name) => canOwn(draft, name));
}

/** Machines that were released, and whose snapshots are still to be renamed. */
export function readReleasedNames(draft: Draft): readonly string[] {
  const text = draft.observed.set.metadata.annotations?.[setAnnotation.releasedVmNames] ?? "";
  return readDeleteList({ [setAnnotation.deleteVmNames]: text }).filter((name) => canOwn(draft, name));
}

/** The delete list with these names added. */
export function extendDeleteNames(draft: Draft, names: Iterable<string>): readonly string[] {
  const believed = { [setAnnotation.deleteVmNames]: writeDeleteList(readDeleteNames(draft)) };
  return extendDeleteList(believed, names);
}

type AnnotateSet = Extract<Action, { kind: "annotateSet" }>;

interface NameLists {
  readonly deleted?: readonly string[];
  readonly released?: readonly string[];
}

/** Writes lists, and whose they are. Names of an earlier list that are not believed go with its uid. */
export function recordNames(draft: Draft, { deleted, released }: NameLists): AnnotateSet {
  const { uid = "", annotations } = draft.observed.set.metadata;
  const deletedText = writeDeleteList(deleted ?? readDeleteNames(draft));
  const changed = deletedText !== (annotations?.[setAnnotation.deleteVmNames] ?? "");
  return {
    kind: "annotateSet",
    wanted: {
      ...(changed ? { [setAnnotation.deleteVmNames]: deletedText || null } : {}),
      ...(released ? { [setAnnotation.releasedVmNames]: writeDeleteList(released) || null } : {}),
      [setAnnotation.vmNamesUid]: uid,
    },
  };
}

function canOwn({ observed, remembered }: Draft, name: string): boolean {
  const { set, members, machines } = observed;
  const { annotations, uid } = set.metadata;
  if (observed.isClaimedElsewhere(name)) return false;
  const known =
    remembered.has(name) ||
    allMembers(members).some((member) => member.vmName === name) ||
    machines.some(({ vm }) => vm.vmName === name);
  if (known || findSlot(getSetKey(set), name) !== undefined) return true;
  const ownList = uid !== undefined && annotations?.[setAnnotation.vmNamesUid] === uid;
  return ownList && name.startsWith(vmName(getSetKey(set), ""));
}
