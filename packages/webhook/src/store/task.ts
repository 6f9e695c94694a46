/** What the writer of a pool has to do, and what that changes in a shard. */
import type { ClaimRound } from "./claim-plan.ts";
import { formatEntryKey, writeEntry, type Entry } from "./entry.ts";
import type { Held } from "./reservation-index.ts";

export type Decision<T> =
  | { readonly kind: "done"; readonly value: T }
  /** It was written before, perhaps without an answer: valid once no other writer can have been earlier. */
  | { readonly kind: "confirm"; readonly held: Held; readonly value: T }
  | {
      readonly kind: "write";
      /** Where it is now; undefined: a new one. */
      readonly held: Held | undefined;
      /** Undefined: removed. */
      readonly entry: Entry | undefined;
      readonly value: T;
      /** Another writer may be taking the same name elsewhere: answered only when that is known. */
      readonly verify: boolean;
    };

export interface Task<T> {
  readonly decide: (round: ClaimRound) => Decision<T>;
  /** The caller is gone: not decided again. */
  readonly signal: AbortSignal;
}

export interface Item {
  readonly task: Task<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  attempts: number;
}

export interface PlannedWrite {
  readonly item: Item;
  readonly decision: Extract<Decision<unknown>, { kind: "write" }>;
}

export function withdrawal(held: Held | undefined, before: Held | undefined): Decision<void> {
  if (!held) return { kind: "done", value: undefined };
  const entry = before && before.shard === held.shard ? before.entry : undefined;
  return { kind: "write", held, entry, value: undefined, verify: false };
}

export function buildChange(
  writes: readonly PlannedWrite[],
  seal: boolean,
): { data: Record<string, string | null>; seal: boolean } {
  const data: Record<string, string | null> = {};
  for (const key of listRemovals(writes)) data[key] = null;
  for (const { key, text } of listPuts(writes)) data[key] = text;
  return { data, seal };
}

export function listPuts(writes: readonly PlannedWrite[]): { key: string; text: string; entry: Entry }[] {
  return writes.flatMap(({ decision: { entry } }) =>
    entry ? [{ key: formatEntryKey(entry), text: writeEntry(entry), entry }] : [],
  );
}

/** Also the key under which another implementation kept what is written under ours now. */
export function listRemovals(writes: readonly PlannedWrite[]): string[] {
  return writes.flatMap(({ decision: { held, entry } }) =>
    held && (!entry || formatEntryKey(entry) !== held.key) ? [held.key] : [],
  );
}
