/** Names of the machines whose snapshots are to be considered when their set is deleted: sorted, comma-joined. */
import type { Annotations } from "./annotations.ts";
import { setAnnotation } from "./keys.ts";

export function readDeleteList(annotations: Annotations): readonly string[] {
  const names = (annotations?.[setAnnotation.deleteVmNames] ?? "").split(",").map((name) => name.trim());
  return sortedUnion(names);
}

export function writeDeleteList(names: Iterable<string>): string {
  return sortedUnion(names).join(",");
}

/** The list grows: what status, pods and earlier passes know is joined, never replaced. */
export function extendDeleteList(annotations: Annotations, names: Iterable<string>): readonly string[] {
  return sortedUnion([...readDeleteList(annotations), ...names]);
}

/** Byte order, as Go sorts: names are ASCII. */
function sortedUnion(names: Iterable<string>): readonly string[] {
  return [...new Set(names)].filter((name) => name !== "").sort();
}
