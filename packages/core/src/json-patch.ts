/**
 * JSON patches (RFC 6902) and merge patches (RFC 7386). Documents are never changed in place. A patch is applied as a whole or
 * not at all; without `move` and `copy`. A failed `test` is `conflict`, else `invalid`.
 */
import { Fault } from "./fault.ts";
import {
  parsePointer,
  tryArrayIndex,
  type JsonPatchOperation,
  assertDepth,
  isJsonArray,
  isJsonRecord,
  jsonEqual,
  ownProperty,
  withProperty,
  withoutProperty,
  formatPointer,
  type PointerTokens,
  jsonKind,
  type JsonRecord,
  definedKeys,
  setOwnProperty,
} from "./json-value.ts";

export {
  formatPointer,
  jsonEqual,
  maxJsonDepth,
  parsePointer,
  type JsonPatchOperation,
} from "./json-value.ts";

/** As many as kube-apiserver accepts in one patch. */
export const maxPatchOperations = 10_000;

export function applyJsonPatch(document: unknown, operations: readonly JsonPatchOperation[]): unknown {
  if (operations.length > maxPatchOperations)
    throw new Fault(
      "tooLarge",
      `a patch of ${operations.length} operations; at most ${maxPatchOperations} are allowed`,
    );
  return operations.reduce(applyOperation, document);
}

function applyOperation(document: unknown, operation: JsonPatchOperation): unknown {
  const path = parsePointer(operation.path);
  switch (operation.op) {
    case "add":
      return add(document, path, readValue(operation));
    case "remove":
      return remove(document, path);
    case "replace":
      return edit(document, path, () => readValue(operation));
    case "test":
      return test(document, path, operation);
    default:
      throw new Fault("invalid", `unknown patch operation "${String(operation.op)}"`);
  }
}

function readValue(operation: JsonPatchOperation): unknown {
  if (operation.value === undefined)
    throw new Fault("invalid", `patch operation "${operation.op}" at "${operation.path}" needs a value`);
  return operation.value;
}

function test(document: unknown, path: readonly string[], operation: JsonPatchOperation): unknown {
  const expected = readValue(operation);
  const actual = find(document, path);
  if (actual === undefined || !jsonEqual(actual, expected))
    throw new Fault("conflict", `test at "${operation.path}" failed: the document holds another value`);
  return document;
}

function find(document: unknown, path: readonly string[]): unknown {
  return path.reduce<unknown>((parent, token) => child(parent, token), document);
}

function child(parent: unknown, token: string): unknown {
  if (isJsonRecord(parent)) return ownProperty(parent, token);
  if (!isJsonArray(parent)) return undefined;
  const index = tryArrayIndex(token, parent.length);
  return index === undefined || index >= parent.length ? undefined : (parent[index] ?? null);
}

function missing(path: readonly string[]): Fault {
  return new Fault("invalid", `nothing is at "/${path.join("/")}"`);
}

// oxlint-disable-next-line max-params -- the depth only counts the recursion
function edit(
  document: unknown,
  path: readonly string[],
  change: (value: unknown) => unknown,
  depth = 0,
): unknown {
  assertDepth(depth);
  const token = path[depth];
  if (token === undefined) return change(document);
  const value = child(document, token);
  if (value === undefined) throw missing(path.slice(0, depth + 1));
  const next = edit(value, path, change, depth + 1);
  if (isJsonRecord(document)) return withProperty(document, token, next);
  if (isJsonArray(document)) return document.with(Number(token), next);
  throw missing(path);
}

function add(document: unknown, path: readonly string[], value: unknown): unknown {
  const last = path.at(-1);
  if (last === undefined) return value;
  return edit(document, path.slice(0, -1), (parent) => {
    if (isJsonRecord(parent)) return withProperty(parent, last, value);
    const index = isJsonArray(parent) ? tryArrayIndex(last, parent.length) : undefined;
    if (!isJsonArray(parent) || index === undefined || index > parent.length)
      throw new Fault("invalid", `cannot add at "/${path.join("/")}": the parent has no such place`);
    return parent.toSpliced(index, 0, value);
  });
}

function remove(document: unknown, path: readonly string[]): unknown {
  const last = path.at(-1);
  if (last === undefined) throw new Fault("invalid", "the whole document cannot be removed");
  return edit(document, path.slice(0, -1), (parent) => {
    if (child(parent, last) === undefined) throw missing(path);
    if (isJsonRecord(parent)) return withoutProperty(parent, last);
    if (isJsonArray(parent)) return parent.toSpliced(Number(last), 1);
    throw missing(path);
  });
}

/** Builds RFC 6902 patches from two documents. */
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

/** The patch fails unless this value is at this place: the author's view of the document, checked by the server. */
export function testOperation(path: PointerTokens, value: unknown): JsonPatchOperation {
  return { op: "test", path: formatPointer(path), value };
}

/** JSON merge patches (RFC 7386). A property that is null counts as absent, as the API server takes it too. */
export function applyMergePatch(document: unknown, patch: unknown, depth = 0): unknown {
  assertDepth(depth);
  jsonKind(patch);
  if (!isJsonRecord(patch)) return patch;
  const result: Record<string, unknown> = isJsonRecord(document) ? { ...document } : {};
  for (const key of definedKeys(patch)) {
    const value = patch[key];
    if (value === null) delete result[key];
    else setOwnProperty(result, key, applyMergePatch(ownProperty(result, key), value, depth + 1));
  }
  return result;
}

export function createMergePatch(from: unknown, to: unknown, depth = 0): unknown {
  assertDepth(depth);
  if (!isJsonRecord(to)) return from !== undefined && jsonEqual(from, to) ? undefined : to;
  const patch = recordPatch(isJsonRecord(from) ? from : {}, to, depth);
  return isJsonRecord(from) && definedKeys(patch).length === 0 ? undefined : patch;
}

function recordPatch(from: JsonRecord, to: JsonRecord, depth: number): JsonRecord {
  const patch: Record<string, unknown> = {};
  for (const key of definedKeys(from)) {
    if (from[key] !== null && (ownProperty(to, key) ?? null) === null) setOwnProperty(patch, key, null);
  }
  for (const key of definedKeys(to)) {
    const value = to[key];
    if (value === null) continue;
    const change = createMergePatch(ownProperty(from, key), value, depth + 1);
    if (change !== undefined) setOwnProperty(patch, key, change);
  }
  return patch;
}
