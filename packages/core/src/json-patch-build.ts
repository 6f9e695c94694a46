/** Builds RFC 6902 patches: from two documents, or for one place whose parents may be missing. */
import type { JsonPatchOperation } from "./json-patch-operation.ts";
import { formatPointer, tryArrayIndex, type PointerTokens } from "./json-pointer.ts";
import {
  assertDepth,
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
  collect({ from, to }, undefined, operations);
  return operations;
}

interface Pair<T> {
  readonly from: T;
  readonly to: T;
}

/** A place as the walk came to it; most places stay as they are, so that no pointer is written for them. */
interface Place {
  readonly parent: Place | undefined;
  readonly token: string | number;
  readonly depth: number;
}

function at(parent: Place | undefined, token: string | number): Place {
  return { parent, token, depth: (parent?.depth ?? 0) + 1 };
}

function pointerTo(place: Place | undefined): string {
  const tokens: string[] = [];
  for (let each = place; each; each = each.parent) tokens.unshift(String(each.token));
  return formatPointer(tokens);
}

function collect(
  { from, to }: Pair<unknown>,
  place: Place | undefined,
  operations: JsonPatchOperation[],
): void {
  if (from === to) return;
  assertDepth(place?.depth ?? 0);
  jsonKind(from);
  if (isJsonRecord(from) && isJsonRecord(to)) collectRecord({ from, to }, place, operations);
  else if (isJsonArray(from) && isJsonArray(to)) collectArray({ from, to }, place, operations);
  else if (!jsonEqual(from, to))
    operations.push({ op: "replace", path: pointerTo(place), value: checked(to) });
}

function collectRecord(
  { from, to }: Pair<JsonRecord>,
  place: Place | undefined,
  operations: JsonPatchOperation[],
): void {
  for (const key of Object.keys(from)) {
    if (from[key] !== undefined && ownProperty(to, key) === undefined)
      operations.push({ op: "remove", path: pointerTo(at(place, key)) });
  }
  for (const key of Object.keys(to)) {
    const after = to[key];
    if (after === undefined) continue;
    const before = ownProperty(from, key);
    if (before === undefined)
      operations.push({ op: "add", path: pointerTo(at(place, key)), value: checked(after) });
    else if (before !== after) collect({ from: before, to: after }, at(place, key), operations);
  }
}

/** Equal items at both ends stay; between them, items are changed in pairs and the rest added or removed. */
function collectArray(
  { from, to }: Pair<readonly unknown[]>,
  place: Place | undefined,
  operations: JsonPatchOperation[],
): void {
  const shorter = Math.min(from.length, to.length);
  let start = 0;
  while (start < shorter && itemsEqual(from[start], to[start])) start += 1;
  let tail = 0;
  while (tail < shorter - start && itemsEqual(from.at(-1 - tail), to.at(-1 - tail))) tail += 1;
  for (let index = start; index < shorter - tail; index += 1)
    collect({ from: from[index] ?? null, to: to[index] ?? null }, at(place, index), operations);
  const changed = shorter - tail;
  for (let index = from.length - tail - 1; index >= changed; index -= 1)
    operations.push({ op: "remove", path: pointerTo(at(place, index)) });
  for (let index = changed; index < to.length - tail; index += 1)
    operations.push({ op: "add", path: pointerTo(at(place, index)), value: checked(to[index] ?? null) });
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
