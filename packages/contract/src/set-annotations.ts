/**
 * Lists that the operator keeps on a set: rebuilds per sub-agent (`{"2":{"count":1,"lastDeleted":"2026-05-14T01:00:00Z"}}`), which
 * only pace rebuilds, so unreadable text is no history; and machines whose snapshots are considered on deletion.
 */
import { setAnnotation } from "./keys.ts";
import type { Annotations } from "./annotations.ts";
import { tryParseSlot } from "./vm-name.ts";

export interface Rebuilds {
  readonly count: number;
  readonly lastDeleted: Date;
}

export type RebuildHistory = ReadonlyMap<number, Rebuilds>;

const maxTextLength = 256 * 1024;

export function readRebuildHistory(annotations: Annotations): RebuildHistory {
  const text = annotations?.[setAnnotation.rebuildHistory] ?? "";
  const entries = Object.entries(tryParseObject(text)).flatMap(([key, value]): [number, Rebuilds][] => {
    const slot = tryParseSlot(key);
    const rebuilds = tryReadRebuilds(value);
    return slot === undefined || rebuilds === undefined ? [] : [[slot, rebuilds]];
  });
  return new Map(entries);
}

function tryParseObject(text: string): object {
  if (text === "" || text.length > maxTextLength) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
  } catch {
    return {}; // corrupt text reads as empty
  }
}

function tryReadRebuilds(value: unknown): Rebuilds | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const { count, lastDeleted } = value as { count?: unknown; lastDeleted?: unknown };
  if (typeof count !== "number" || !Number.isSafeInteger(count) || count < 0) return undefined;
  const at = new Date(typeof lastDeleted === "string" ? lastDeleted : Number.NaN);
  return Number.isNaN(at.getTime()) ? undefined : { count, lastDeleted: at };
}

/** The annotation's text, slots in order; whole seconds, as Go writes them. Empty when there is nothing to say. */
export function writeRebuildHistory(history: RebuildHistory): string {
  if (history.size === 0) return "";
  const ordered = [...history].sort(([left], [right]) => left - right);
  return JSON.stringify(
    Object.fromEntries(
      ordered.map(([slot, { count, lastDeleted }]) => [
        String(slot),
        { count, lastDeleted: lastDeleted.toISOString().replace(/\.\d+Z$/, "Z") },
      ]),
    ),
  );
}

/** Names of the machines whose snapshots are considered when the set is deleted: sorted, comma-joined. */
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
