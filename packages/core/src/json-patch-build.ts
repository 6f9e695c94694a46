/** Builds RFC 6902 patches: from two documents, or for one place whose parents may be missing. */
import type { JsonPatchOperation } from "./json-patch-operation.ts";
import { formatPointer, tryArrayIndex, type PointerTokens } from "./json-pointer.ts";
import {
  assertDepth,
  definedKeys,
  isJsonArray,
  isJsonRecord,
  jsonEqual,
  jsonKind,
  ownProperty,
  withProperty,
  type JsonRecord,
} from "./json-value.ts";

/** The operations that turn `from` into `to`; none when they are equal. */
export function diffJson(from: unknown, to: unknown): JsonPatchOperation[] {
  const operations: JsonPatchOperation[] = [];
  collect({ from, to }, [], operations);
  return operations;
}

interface Pair<T> {
  readonly from: T;
  readonly to: T;
}

function collect({ from, to }: Pair<unknown>, path: PointerTokens, operations: JsonPatchOperation[]): void {
  if (from === to) return;
  assertDepth(path.length);
  jsonKind(from);
  if (isJsonRecord(from) && isJsonRecord(to)) collectRecord({ from, to }, path, operations);
  else if (isJsonArray(from) && isJsonArray(to)) collectArray({ from, to }, path, operations);
  else if (!jsonEqual(from, to))
    operations.push({ op: "replace", path: formatPointer(path), value: checked(to) });
}

function collectRecord(
  { from, to }: Pair<JsonRecord>,
  path: PointerTokens,
  operations: JsonPatchOperation[],
): void {
  for (const key of definedKeys(from)) {
    if (ownProperty(to, key) === undefined)
      operations.push({ op: "remove", path: formatPointer([...path, key]) });
  }
  for (const key of definedKeys(to)) {
    const before = ownProperty(from, key);
    const after = to[key];
    if (before === undefined)
      operations.push({ op: "add", path: formatPointer([...path, key]), value: checked(after) });
    // Most of a document stays as it is: no path is made for that.
    else if (before !== after) collect({ from: before, to: after }, [...path, key], operations);
  }
}

/** Equal items at both ends stay; between them, items are changed in pairs and the rest added or removed. */
function collectArray(
  { from, to }: Pair<readonly unknown[]>,
  path: PointerTokens,
  operations: JsonPatchOperation[],
): void {
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && itemsEqual(from[start], to[start])) start += 1;
  let tail = 0;
  while (tail < shorter - start && itemsEqual(from.at(-1 - tail), to.at(-1 - tail))) tail += 1;
  for (let index = start; index < shorter - tail; index += 1)
    collect({ from: from[index] ?? null, to: to[index] ?? null }, [...path, String(index)], operations);
  const changed = shorter - tail;
  for (let index = from.length - tail - 1; index >= changed; index -= 1)
    operations.push({ op: "remove", path: formatPointer([...path, String(index)]) });
  for (let index = changed; index < to.length - tail; index += 1)
    operations.push({
      op: "add",
      path: formatPointer([...path, String(index)]),
      value: checked(to[index] ?? null),
    });
}

function itemsEqual(left: unknown, right: unknown): boolean {
  return jsonEqual(left ?? null, right ?? null);
}

function checked(value: unknown): unknown {
  jsonKind(value);
  return value;
}

/**
 * The operations that put a value at a place, with the objects on the way to it when they are missing: none when
 * it is there already, one otherwise.
 */
export function setOperations(document: unknown, path: PointerTokens, value: unknown): JsonPatchOperation[] {
  let current = document;
  for (const [depth, token] of path.entries()) {
    const next = step(current, token);
    const missing = next === undefined || (next === null && depth < path.length - 1);
    if (missing)
      return [
        {
          op: next === null ? "replace" : "add",
          path: formatPointer(path.slice(0, depth + 1)),
          value: nest(path.slice(depth + 1), value),
        },
      ];
    current = next;
  }
  return jsonEqual(current, value) ? [] : [{ op: "replace", path: formatPointer(path), value }];
}

/** The operation that removes what is at a place; none when nothing is there. */
export function removeOperations(document: unknown, path: PointerTokens): JsonPatchOperation[] {
  let current = document;
  for (const token of path) {
    current = step(current, token);
    if (current === undefined) return [];
  }
  return [{ op: "remove", path: formatPointer(path) }];
}

/** The patch fails unless this value is at this place: the author's view of the document, checked by the server. */
export function testOperation(path: PointerTokens, value: unknown): JsonPatchOperation {
  return { op: "test", path: formatPointer(path), value };
}

function step(parent: unknown, token: string): unknown {
  if (isJsonRecord(parent)) return ownProperty(parent, token);
  if (!isJsonArray(parent)) return undefined;
  const index = tryArrayIndex(token, parent.length);
  return index === undefined ? undefined : parent[index];
}

function nest(path: PointerTokens, value: unknown): unknown {
  return path.reduceRight<unknown>((inner, token) => withProperty({}, token, inner), value);
}
