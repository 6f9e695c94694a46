/** Lists that merge instead of being replaced: by the key of their elements, or as a set of scalars. */
import { Fault } from "@cocoon/core";
import { isRecord, own, type Json } from "../json.ts";

export const directive = "$patch";

interface Merging {
  readonly mergeKey?: string | undefined;
  /** Merges an element of the patch into its like. */
  readonly mergeElement: (original: Json, patch: Json) => Json;
}

export function mergeLists(
  original: unknown[],
  patch: unknown[],
  { mergeKey, mergeElement }: Merging,
): unknown[] {
  if (original.length === 0 && patch.length === 0) return original;
  if (mergeKey === undefined) return mergeScalars(original, patch);
  const { kept, rest } = obeyElements(records(original), records(patch), mergeKey);
  const merged: Json[] = [...kept];
  for (const element of rest) {
    const value = own(element, mergeKey);
    if (value === undefined)
      throw new Fault("invalid", `strategic merge patch: an element has no ${mergeKey}`);
    const at = merged.findIndex((each) => own(each, mergeKey) === value);
    const found = merged[at];
    if (found) merged[at] = mergeElement(found, element);
    else merged.push(element);
  }
  return orderLists(merged, { order: rest, serverOrder: kept, mergeKey });
}

function mergeScalars(original: unknown[], patch: unknown[]): unknown[] {
  if ([...original, ...patch].some((item) => typeof item === "object" && item !== null))
    throw new Fault("invalid", "strategic merge patch: a list of scalars holds something else");
  return orderLists([...new Set([...original, ...patch])], { order: patch, serverOrder: original });
}

function records(list: unknown[]): Json[] {
  return list.map((item) => {
    if (!isRecord(item))
      throw new Fault("invalid", "strategic merge patch: a list of objects holds something else");
    return item;
  });
}

/** Elements with a directive are carried out first: one may delete its like, or replace the whole list. */
function obeyElements(original: Json[], patch: Json[], mergeKey: string): { kept: Json[]; rest: Json[] } {
  let kept = original;
  const rest: Json[] = [];
  let replace = false;
  for (const element of patch) {
    const wanted = own(element, directive);
    if (wanted === undefined) rest.push(element);
    else if (wanted === "replace") replace = true;
    else if (wanted === "delete") {
      const value = own(element, mergeKey);
      if (value === undefined)
        throw new Fault("invalid", `strategic merge patch: an element has no ${mergeKey}`);
      kept = kept.filter((each) => own(each, mergeKey) !== value);
    } else
      throw new Fault(
        "invalid",
        `strategic merge patch: unknown value of ${directive}: ${JSON.stringify(wanted)}`,
      );
  }
  return replace ? { kept: rest, rest: [] } : { kept, rest };
}

interface Ordering {
  readonly order: readonly unknown[];
  readonly serverOrder: readonly unknown[];
  readonly mergeKey?: string | undefined;
}

/** Elements of the patch in the patch's order, the others in the server's; where both know two, the server decides. */
export function orderLists(items: unknown[], { order, serverOrder, mergeKey }: Ordering): unknown[] {
  const identity = (item: unknown) => (mergeKey !== undefined && isRecord(item) ? own(item, mergeKey) : item);
  const positions = (list: readonly unknown[]) => {
    const found = new Map<unknown, number>();
    for (const [index, item] of list.entries())
      if (!found.has(identity(item))) found.set(identity(item), index);
    return found;
  };
  const [inPatch, onServer] = [positions(order), positions(serverOrder)];
  const by = (index: ReadonlyMap<unknown, number>) => (left: unknown, right: unknown) =>
    (index.get(identity(left)) ?? -1) - (index.get(identity(right)) ?? -1);
  const patched = items.filter((item) => inPatch.has(identity(item))).toSorted(by(inPatch));
  const others = items.filter((item) => !inPatch.has(identity(item))).toSorted(by(onServer));
  const ordered: unknown[] = [];
  while (patched.length > 0 && others.length > 0) {
    const [one, other] = [onServer.get(identity(others[0])), onServer.get(identity(patched[0]))];
    const serverFirst = one !== undefined && other !== undefined && one < other;
    ordered.push(serverFirst ? others.shift() : patched.shift());
  }
  return [...ordered, ...others, ...patched];
}
