/** Conditions as Kubernetes defines them: one per type, with a time that moves only when the status does. */

interface ConditionState {
  readonly type: string;
  readonly status: string;
}

export interface MergeOptions {
  readonly now: Date;
  /** Types whose time starts anew although their status stays. */
  readonly restart?: readonly string[];
}

/** Conditions of types that are not wanted stay as they are, where they are: they belong to other writers. */
export function mergeConditions<
  C extends ConditionState & { readonly lastTransitionTime?: string },
  W extends ConditionState,
>(
  current: readonly C[] | undefined,
  wanted: readonly W[],
  { now, restart = [] }: MergeOptions,
): (C | (W & { readonly lastTransitionTime: string }))[] {
  const next: (C | (W & { readonly lastTransitionTime: string }))[] = [...(current ?? [])];
  for (const each of wanted) {
    const index = next.findIndex(({ type }) => type === each.type);
    const old = next[index];
    const keptTime =
      old?.status === each.status && !restart.includes(each.type) ? old.lastTransitionTime : undefined;
    const merged = { ...each, lastTransitionTime: keptTime ?? formatSeconds(now) };
    if (index < 0) next.push(merged);
    else next[index] = merged;
  }
  return next;
}

export function findCondition<C extends { readonly type: string }>(
  conditions: readonly C[] | undefined,
  type: string,
): C | undefined {
  return conditions?.find((condition) => condition.type === type);
}

export function isConditionTrue(conditions: readonly ConditionState[] | undefined, type: string): boolean {
  return findCondition(conditions, type)?.status === "True";
}

export function formatSeconds(at: Date): string {
  return at.toISOString().replace(/\.\d+Z$/, "Z");
}

/** MicroTime: six fractional digits, as leases and events have them. */
export function formatMicros(at: Date): string {
  return at.toISOString().replace("Z", "000Z");
}
