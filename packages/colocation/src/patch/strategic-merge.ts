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
import { directive, mergeLists, orderLists } from "./merge-lists.ts";

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
  const before = listOf(original, field);
  const change = listOf(patch, field);
  if (!Array.isArray(order)) throw bad(`${key} must be a list`);
  if (!before && !change) return;
  const merging = schema.lists?.[field];
  const merged = before && change ? (merging ? mergeBy(merging, before, change) : change) : before;
  const items = merged ?? (withoutDirectives(change) as unknown[]);
  put(original, field, orderLists(items, { order, serverOrder: before ?? [], mergeKey: merging?.mergeKey }));
  delete patch[field];
}

function listOf(object: Json, field: string): unknown[] | undefined {
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
