/**
 * Strategic merge patches, applied as the API server applies them: objects merge, lists are replaced unless the schema
 * names the key by which their elements merge; null removes; directives are obeyed.
 *
 *   $patch: replace | delete          of an object, or of an element of a merging list
 *   $retainKeys: [a, b]               drops every other field
 *   $setElementOrder/list: [...]      order of the elements after merging
 *   $deleteFromPrimitiveList/list     takes values out of a list of scalars
 *
 * Both arguments of the functions here are used up: pass copies.
 */
import { Fault } from "@cocoon/core";
import { jsonEqual } from "@cocoon/core/json-patch";
import { isRecord, own, put, type Json } from "../json.ts";

export interface MergeSchema {
  readonly objects?: Readonly<Record<string, MergeSchema>>;
  /** Lists that merge: by that field of their elements, or as a set of scalars when there is none. */
  readonly lists?: Readonly<Record<string, MergingList>>;
}

interface MergingList {
  readonly mergeKey?: string;
  readonly of?: MergeSchema;
}

const retainKeys = "$retainKeys";
const setOrder = "$setElementOrder/";
const deleteScalars = "$deleteFromPrimitiveList/";
const noSchema: MergeSchema = {};

export function strategicMerge(original: Json, patch: Json, schema: MergeSchema): Json {
  if (Object.hasOwn(patch, directive)) return obey(patch);
  retain(original, patch);
  for (const key of Object.keys(patch))
    if (key.startsWith(setOrder)) applyOrder(original, patch, { key, schema });
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith(deleteScalars)) removeScalars(original, key.slice(deleteScalars.length), value);
    else mergeField(original, { key, value }, schema);
  }
  return original;
}

function obey(patch: Json): Json {
  const { [directive]: wanted, ...rest } = patch;
  if (wanted === "replace") return rest;
  if (wanted === "delete") return {};
  throw bad(`unknown value of ${directive}: ${JSON.stringify(wanted)}`);
}

function mergeField(
  original: Json,
  { key, value }: { readonly key: string; readonly value: unknown },
  schema: MergeSchema,
): void {
  if (value === null) {
    delete original[key];
    return;
  }
  const present = own(original, key);
  if (isRecord(present) && isRecord(value))
    put(original, key, strategicMerge(present, value, schema.objects?.[key] ?? noSchema));
  else if (Array.isArray(present) && Array.isArray(value)) {
    const merging = schema.lists?.[key];
    put(original, key, merging ? mergeBy(merging, present, value) : value);
  } else take(original, key, value);
}

function mergeBy({ mergeKey, of = noSchema }: MergingList, original: unknown[], patch: unknown[]): unknown[] {
  return mergeLists(original, patch, {
    mergeKey,
    mergeElement: (element, change) => strategicMerge(element, change, of),
  });
}

/** A value that has nothing to merge with: without its nulls and without what carries a directive. */
function take(original: Json, key: string, value: unknown): void {
  const cleaned = withoutDirectives(withoutNulls(value));
  if (cleaned === undefined) delete original[key];
  else put(original, key, cleaned);
}

function withoutNulls(value: unknown): unknown {
  if (Array.isArray(value)) for (const item of value) withoutNulls(item);
  else if (isRecord(value))
    for (const [key, each] of Object.entries(value)) {
      if (each === null) delete value[key];
      else withoutNulls(each);
    }
  return value;
}

function withoutDirectives(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutDirectives).filter((item) => item !== undefined);
  if (!isRecord(value)) return value;
  if (Object.hasOwn(value, directive)) return undefined;
  for (const [key, each] of Object.entries(value)) {
    const kept = withoutDirectives(each);
    if (kept === undefined) delete value[key];
    else put(value, key, kept);
  }
  return value;
}

function retain(original: Json, patch: Json): void {
  const kept = own(patch, retainKeys);
  if (kept === undefined) return;
  delete patch[retainKeys];
  if (!Array.isArray(kept)) throw bad(`${retainKeys} must be a list`);
  const keys = new Set<unknown>(kept);
  for (const [key, value] of Object.entries(patch)) {
    if (value === null || key.startsWith(deleteScalars) || key.startsWith(setOrder) || keys.has(key))
      continue;
    throw bad(`${key} is set but not listed in ${retainKeys}`);
  }
  for (const key of Object.keys(original)) if (!keys.has(key)) delete original[key];
}

function applyOrder(
  original: Json,
  patch: Json,
  { key, schema }: { readonly key: string; readonly schema: MergeSchema },
): void {
  const order = patch[key];
  const field = key.slice(setOrder.length);
  delete patch[key];
  const before = readList(original, field);
  const change = readList(patch, field);
  if (!Array.isArray(order)) throw bad(`${key} must be a list`);
  if (!before && !change) return;
  const merging = schema.lists?.[field];
  const merged = before && change ? (merging ? mergeBy(merging, before, change) : change) : before;
  const items = merged ?? (withoutDirectives(change) as unknown[]);
  put(original, field, orderLists(items, { order, serverOrder: before ?? [], mergeKey: merging?.mergeKey }));
  delete patch[field];
}

function readList(object: Json, field: string): unknown[] | undefined {
  const value = own(object, field);
  if (value === undefined) return undefined;
  if (!Array.isArray(value)) throw bad(`${field} must be a list where its order is given`);
  return value as unknown[];
}

function removeScalars(original: Json, field: string, values: unknown): void {
  const present = own(original, field);
  if (!Array.isArray(present) || !Array.isArray(values)) return;
  put(
    original,
    field,
    present.filter((item) => !values.some((value) => jsonEqual(item, value))),
  );
}

function bad(message: string): Fault {
  return new Fault("invalid", `strategic merge patch: ${message}`);
}

/** Lists that merge instead of being replaced: by the key of their elements, or as a set of scalars. */
const directive = "$patch";

interface Merging {
  readonly mergeKey?: string | undefined;
  readonly mergeElement: (original: Json, patch: Json) => Json;
}

function mergeLists(original: unknown[], patch: unknown[], { mergeKey, mergeElement }: Merging): unknown[] {
  if (original.length === 0 && patch.length === 0) return original;
  if (mergeKey === undefined) return mergeScalars(original, patch);
  const { kept, rest } = obeyElements(records(original), records(patch), mergeKey);
  const merged: Json[] = [...kept];
  for (const element of rest) {
    const value = own(element, mergeKey);
    if (value === undefined) throw bad(`an element has no ${mergeKey}`);
    const at = merged.findIndex((each) => own(each, mergeKey) === value);
    const found = merged[at];
    if (found) merged[at] = mergeElement(found, element);
    else merged.push(element);
  }
  return orderLists(merged, { order: rest, serverOrder: kept, mergeKey });
}

function mergeScalars(original: unknown[], patch: unknown[]): unknown[] {
  if ([...original, ...patch].some((item) => typeof item === "object" && item !== null))
    throw bad("a list of scalars holds something else");
  return orderLists([...new Set([...original, ...patch])], { order: patch, serverOrder: original });
}

function records(list: unknown[]): Json[] {
  return list.map((item) => {
    if (!isRecord(item)) throw bad("a list of objects holds something else");
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
      if (value === undefined) throw bad(`an element has no ${mergeKey}`);
      kept = kept.filter((each) => own(each, mergeKey) !== value);
    } else throw bad(`unknown value of ${directive}: ${JSON.stringify(wanted)}`);
  }
  return replace ? { kept: rest, rest: [] } : { kept, rest };
}

interface Ordering {
  readonly order: readonly unknown[];
  readonly serverOrder: readonly unknown[];
  readonly mergeKey?: string | undefined;
}

/** Elements of the patch in the patch's order, the others in the server's; where both know two, the server decides. */
function orderLists(items: unknown[], { order, serverOrder, mergeKey }: Ordering): unknown[] {
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
