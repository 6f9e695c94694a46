/**
 * JSON merge patches (RFC 7386). In them `null` means "remove", so a document that holds a null property cannot be
 * expressed: such a property counts as absent here, as the API server takes it too.
 */
import {
  assertDepth,
  definedKeys,
  isJsonRecord,
  jsonEqual,
  jsonKind,
  ownProperty,
  setOwnProperty,
  type JsonRecord,
} from "./json-value.ts";

/** The document after the patch; the given one is not changed. */
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

/** The merge patch that turns `from` into `to`; undefined when nothing would change. */
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
