/**
 * JSON patches: RFC 6902 operations applied, computed and built, RFC 7386 merge patches, JSON pointers. Documents
 * are never changed in place: what comes back shares the parts that did not change with what went in.
 *
 *   applyJsonPatch(pod, [{ op: "add", path: "/metadata/labels/a", value: "b" }])
 *   diffJson(before, after)                                   the operations that lead from one to the other
 *   setOperations(pod, ["metadata", "annotations", key], "x") the same where `annotations` may be missing
 */
export { applyJsonPatch, maxPatchOperations } from "./json-patch-apply.ts";
export { diffJson, removeOperations, setOperations, testOperation } from "./json-patch-build.ts";
export { applyMergePatch, createMergePatch } from "./json-merge-patch.ts";
export { escapePointerToken, formatPointer, parsePointer, type PointerTokens } from "./json-pointer.ts";
export { jsonEqual, maxJsonDepth } from "./json-value.ts";
export type { JsonPatchOperation } from "./json-patch-operation.ts";
