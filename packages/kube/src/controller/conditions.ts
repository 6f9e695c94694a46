/** Conditions as metav1.Condition has them: one per type, and the time of the last transition means just that. */
import { jsonEqual } from "@cocoon/core";
import type { Condition } from "../builtin-objects.ts";

export interface WantedCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  /** A CamelCase word for programs. */
  readonly reason: string;
  readonly message?: string;
  readonly observedGeneration?: number;
}

/** What the API machinery accepts. */
const maxMessageLength = 32_768;

/**
 * The list with the wanted conditions in it. Other types, their order and fields we do not know are kept;
 * `lastTransitionTime` moves only when the status changes. The very same list when nothing changes, so that callers
 * can see that there is nothing to write.
 */
export function mergeConditions(
  existing: readonly Condition[] | undefined,
  wanted: readonly WantedCondition[],
  now: Date,
): readonly Condition[] {
  let list = existing ?? [];
  for (const each of wanted) {
    const index = list.findIndex((condition) => condition.type === each.type);
    const old = list[index];
    const merged = mergeCondition(old, each, now);
    if (!old) list = [...list, merged];
    else if (!jsonEqual(old, merged)) list = list.with(index, merged);
  }
  return list;
}

function mergeCondition(old: Condition | undefined, wanted: WantedCondition, now: Date): Condition {
  const sameStatus = old?.status === wanted.status && old.lastTransitionTime !== undefined;
  return {
    ...old,
    ...wanted,
    message: (wanted.message ?? "").slice(0, maxMessageLength),
    // Kubernetes times have whole seconds.
    lastTransitionTime: sameStatus
      ? (old.lastTransitionTime ?? "")
      : now.toISOString().replace(/\.\d+Z$/, "Z"),
  };
}

export function findCondition<C extends Condition>(
  conditions: readonly C[] | undefined,
  type: string,
): C | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isConditionTrue(conditions: readonly Condition[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === "True";
}

/** The list without that type; the very same list when it is not in it. */
export function withoutCondition<C extends Condition>(conditions: readonly C[], type: string): readonly C[] {
  return findCondition(conditions, type)
    ? conditions.filter((condition) => condition.type !== type)
    : conditions;
}
