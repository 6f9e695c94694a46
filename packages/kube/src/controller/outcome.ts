/** What a reconcile says about its key. Failure is thrown; these are the expected answers. */

export type Outcome =
  | { readonly kind: "settled" }
  | { readonly kind: "requeue"; readonly afterMs: number; readonly why: string };

/** Nothing to do until something changes. */
export const settled: Outcome = { kind: "settled" };

/** Look again after a while even when nothing changes; `why` is for the log. Zero means soon, with back-off. */
export function requeue(afterMs: number, why: string): Outcome {
  return { kind: "requeue", afterMs, why };
}
