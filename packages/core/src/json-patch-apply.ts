/**
 * Applies RFC 6902 patches: all operations or none. A failed `test` is a `conflict` (the document is not what the
 * author of the patch saw); everything else that does not fit is `invalid`.
 */
import { Fault } from "./fault.ts";
import type { JsonPatchOperation } from "./json-patch-operation.ts";
import { parsePointer, tryArrayIndex } from "./json-pointer.ts";
import {
  assertDepth,
  isJsonArray,
  isJsonRecord,
  jsonEqual,
  ownProperty,
  withProperty,
  withoutProperty,
} from "./json-value.ts";

/** As many as kube-apiserver accepts in one patch. */
export const maxPatchOperations = 10_000;
/** Values that `copy` operations of one patch may add: each can double the document. */
const maxCopiedValues = 100_000;

export function applyJsonPatch(document: unknown, operations: readonly JsonPatchOperation[]): unknown {
  if (operations.length > maxPatchOperations)
    throw new Fault(
      "tooLarge",
      `a patch of ${operations.length} operations; at most ${maxPatchOperations} are allowed`,
    );
  let current = document;
  let copied = 0;
  for (const operation of operations) {
    if (operation.op === "copy") copied += sizeOfCopy(current, operation, maxCopiedValues - copied);
    current = applyOperation(current, operation);
  }
  return current;
}

/** How many values the copy has; more than `room` are refused without counting to the end. */
function sizeOfCopy(document: unknown, operation: JsonPatchOperation, room: number): number {
  const waiting = [read(document, parsePointer(fromOf(operation)))];
  let size = 0;
  for (let value = waiting.pop(); value !== undefined; value = waiting.pop()) {
    size += 1;
    if (size > room)
      throw new Fault("tooLarge", `copies add more than ${maxCopiedValues} values to the document`);
    if (isJsonArray(value)) waiting.push(...value.slice(0, room + 1));
    else if (isJsonRecord(value)) waiting.push(...Object.values(value).slice(0, room + 1));
  }
  return size;
}

function applyOperation(document: unknown, operation: JsonPatchOperation): unknown {
  const path = parsePointer(operation.path);
  switch (operation.op) {
    case "add":
      return add(document, path, valueOf(operation));
    case "remove":
      return remove(document, path);
    case "replace":
      return edit(document, path, () => valueOf(operation));
    case "test":
      return test(document, path, operation);
    case "copy":
      return add(document, path, read(document, parsePointer(fromOf(operation))));
    case "move":
      return move(document, path, operation);
    default:
      throw new Fault("invalid", `unknown patch operation "${String(operation.op)}"`);
  }
}

function valueOf(operation: JsonPatchOperation): unknown {
  if (operation.value === undefined)
    throw new Fault("invalid", `patch operation "${operation.op}" at "${operation.path}" needs a value`);
  return operation.value;
}

function fromOf(operation: JsonPatchOperation): string {
  if (operation.from === undefined)
    throw new Fault("invalid", `patch operation "${operation.op}" at "${operation.path}" needs "from"`);
  return operation.from;
}

function test(document: unknown, path: readonly string[], operation: JsonPatchOperation): unknown {
  const expected = valueOf(operation);
  if (!exists(document, path) || !jsonEqual(read(document, path), expected))
    throw new Fault("conflict", `test at "${operation.path}" failed: the document holds another value`);
  return document;
}

function move(document: unknown, path: readonly string[], operation: JsonPatchOperation): unknown {
  const from = parsePointer(fromOf(operation));
  if (from.length < path.length && from.every((token, index) => token === path[index]))
    throw new Fault("invalid", `cannot move "${operation.from}" into its own child "${operation.path}"`);
  const value = read(document, from);
  if (from.length === path.length && from.every((token, index) => token === path[index])) return document;
  return add(remove(document, from), path, value);
}

function exists(document: unknown, path: readonly string[]): boolean {
  let current = document;
  for (const token of path) {
    current = child(current, token);
    if (current === undefined) return false;
  }
  return true;
}

function read(document: unknown, path: readonly string[]): unknown {
  let current = document;
  for (const token of path) {
    current = child(current, token);
    if (current === undefined) throw missing(path);
  }
  return current;
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

/** Replaces the value at a path that must exist. */
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
