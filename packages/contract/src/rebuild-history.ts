/**
 * How often each sub-agent was rebuilt, kept on the set: `{"2":{"count":1,"lastDeleted":"2026-05-14T01:00:00Z"}}`.
 * It only paces rebuilds, so text that cannot be read counts as no history.
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

/** One more rebuild of a slot; slots that no longer exist are forgotten. */
export function recordRebuild(
  history: RebuildHistory,
  rebuilt: { readonly slot: number; readonly at: Date; readonly replicas: number },
): RebuildHistory {
  const count = (history.get(rebuilt.slot)?.count ?? 0) + 1;
  const kept = [...history].filter(([slot]) => slot <= rebuilt.replicas && slot !== rebuilt.slot);
  return new Map([...kept, [rebuilt.slot, { count, lastDeleted: rebuilt.at }]]);
}
