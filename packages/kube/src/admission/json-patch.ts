/** RFC 6901 pointers and RFC 6902 patches: built, taken from a difference, applied. */
import { Fault } from "@cocoon/core";
import { isDeepStrictEqual } from "node:util";
import type { JsonPatchOperation } from "../client.ts";

/** `pointer("metadata", "annotations", "example.com/x")` is `/metadata/annotations/example.com~1x`. */
export function pointer(...segments: readonly (string | number)[]): string {
  return segments.map((segment) => `/${escapeSegment(String(segment))}`).join("");
}

function escapeSegment(segment: string): string {
  return segment.replaceAll("~", "~0").replaceAll("/", "~1");
}

/** The segments of a pointer; a fault when it is not one. */
export function parsePointer(text: string): string[] {
  if (text === "") return [];
  if (!text.startsWith("/") || /~(?![01])/.test(text))
    throw new Fault("invalid", `"${text}" is not a JSON pointer`);
  return text
    .slice(1)
    .split("/")
    .map((segment) => segment.replaceAll("~1", "/").replaceAll("~0", "~"));
}

type MetadataMap = "annotations" | "labels";

/**
 * Operations that set annotations or labels and leave the others alone. A parent that is missing is made first,
 * because `add` below a missing parent fails. Values that are already there give no operation.
 */
export function setMetadata(
  object: unknown,
  field: MetadataMap,
  values: Readonly<Record<string, string>>,
): JsonPatchOperation[] {
  const metadata = isRecord(object) ? object["metadata"] : undefined;
  const present = isRecord(metadata) ? metadata[field] : undefined;
  const existing = isRecord(present) ? present : {};
  const operations = Object.entries(values)
    .filter(([key, value]) => existing[key] !== value)
    .map(([key, value]): JsonPatchOperation => ({ op: "add", path: pointer("metadata", field, key), value }));
  if (operations.length === 0) return [];
  const parents: JsonPatchOperation[] = [];
  if (!isRecord(metadata)) parents.push({ op: "add", path: "/metadata", value: {} });
  if (!isRecord(present)) parents.push({ op: "add", path: pointer("metadata", field), value: {} });
  return [...parents, ...operations];
}

/**
 * The patch that turns `before` into `after`: at the deepest place where they differ, arrays index by index.
 * Take both from the object as the API server sent it: a patch computed from a re-serialised object may name parents
 * that the stored one does not have.
 */
export function difference(before: unknown, after: unknown): JsonPatchOperation[] {
  const operations: JsonPatchOperation[] = [];
  compare(before, after, { path: "", operations });
  return operations;
}

interface Place {
  readonly path: string;
  readonly operations: JsonPatchOperation[];
}

function compare(before: unknown, after: unknown, place: Place): void {
  if (Object.is(before, after)) return;
  if (isRecord(before) && isRecord(after)) compareRecords(before, after, place);
  else if (Array.isArray(before) && Array.isArray(after)) compareArrays(before, after, place);
  else if (before !== after) place.operations.push({ op: "replace", path: place.path, value: after });
}

function compareRecords(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
  { path, operations }: Place,
): void {
  for (const key of Object.keys(before)) {
    // Most of what a webhook is sent stays as it is: no path is spelled for that.
    if (Object.is(before[key], after[key]) && isPresent(after, key)) continue;
    const at = `${path}/${escapeSegment(key)}`;
    if (!isPresent(after, key)) operations.push({ op: "remove", path: at });
    else compare(before[key], after[key], { path: at, operations });
  }
  for (const key of Object.keys(after)) {
    if (isPresent(after, key) && !Object.hasOwn(before, key))
      operations.push({ op: "add", path: `${path}/${escapeSegment(key)}`, value: after[key] });
  }
}

function compareArrays(
  before: readonly unknown[],
  after: readonly unknown[],
  { path, operations }: Place,
): void {
  const common = Math.min(before.length, after.length);
  for (let index = 0; index < common; index += 1)
    compare(before[index], after[index], { path: `${path}/${index}`, operations });
  // From the end, so that the indices of what is still to go stay true.
  for (let index = before.length - 1; index >= common; index -= 1)
    operations.push({ op: "remove", path: `${path}/${index}` });
  for (let index = common; index < after.length; index += 1)
    operations.push({ op: "add", path: `${path}/-`, value: after[index] });
}

/** A field set to undefined is not written by JSON, so it counts as absent. */
function isPresent(record: Readonly<Record<string, unknown>>, key: string): boolean {
  return Object.hasOwn(record, key) && record[key] !== undefined;
}

/** The document after the patch; the given one is left alone. A fault names the operation that cannot be applied. */
export function applyPatch(document: unknown, patch: readonly JsonPatchOperation[]): unknown {
  return patch.reduce((current, operation) => applyOne(current, operation), document);
}

function applyOne(document: unknown, operation: JsonPatchOperation): unknown {
  const segments = parsePointer(operation.path);
  switch (operation.op) {
    case "add":
      return change(document, segments, { kind: "add", value: operation.value });
    case "replace":
      read(document, segments);
      return segments.length === 0
        ? operation.value
        : change(document, segments, { kind: "replace", value: operation.value });
    case "remove":
      return change(document, segments, { kind: "remove" });
    case "test":
      if (!isDeepStrictEqual(read(document, segments), operation.value))
        throw new Fault("invalid", `test of ${operation.path} failed`);
      return document;
    case "copy":
    case "move":
      return transfer(document, operation);
    default:
      throw new Fault("invalid", `"${String(operation.op)}" is not a patch operation`);
  }
}

function transfer(document: unknown, { op, from, path }: JsonPatchOperation): unknown {
  const source = parsePointer(from ?? "");
  const value = read(document, source);
  const rest = op === "move" ? change(document, source, { kind: "remove" }) : document;
  return change(rest, parsePointer(path), { kind: "add", value });
}

type Change = { readonly kind: "add" | "replace"; readonly value: unknown } | { readonly kind: "remove" };

function read(document: unknown, segments: readonly string[]): unknown {
  let current = document;
  for (const segment of segments) {
    if (Array.isArray(current)) current = current[indexIn(current, segment)];
    else if (isRecord(current) && Object.hasOwn(current, segment)) current = current[segment];
    else throw missing(segments);
  }
  return current;
}

function change(document: unknown, segments: readonly string[], what: Change): unknown {
  const [head, ...tail] = segments;
  if (head === undefined) return what.kind === "remove" ? undefined : what.value;
  if (Array.isArray(document)) return changeArray(document, [head, ...tail], what);
  if (!isRecord(document)) throw missing(segments);
  if (tail.length === 0 && what.kind !== "remove") return withMember(document, head, what.value);
  if (!Object.hasOwn(document, head)) throw missing(segments);
  if (tail.length > 0) return withMember(document, head, change(document[head], tail, what));
  return Object.fromEntries(Object.entries(document).filter(([key]) => key !== head));
}

/** Not a spread with a computed key: `__proto__` is an ordinary member of a JSON object. */
function withMember(record: object, key: string, value: unknown): Record<string, unknown> {
  return Object.fromEntries([...Object.entries(record), [key, value]]);
}

function changeArray(
  array: readonly unknown[],
  segments: readonly [string, ...string[]],
  what: Change,
): unknown {
  const [head, ...tail] = segments;
  if (tail.length > 0) {
    const index = indexIn(array, head);
    return array.with(index, change(array[index], tail, what));
  }
  if (what.kind === "add")
    return array.toSpliced(head === "-" ? array.length : indexIn(array, head, array.length), 0, what.value);
  const index = indexIn(array, head);
  return what.kind === "remove" ? array.toSpliced(index, 1) : array.with(index, what.value);
}

function indexIn(array: readonly unknown[], segment: string, last = array.length - 1): number {
  const index = /^(?:0|[1-9]\d*)$/.test(segment) ? Number(segment) : -1;
  if (index < 0 || index > last) throw missing([segment]);
  return index;
}

function missing(segments: readonly string[]): Fault {
  return new Fault("invalid", `${pointer(...segments)} does not exist`);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
