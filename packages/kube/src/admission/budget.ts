/** How much time a handler has: a share of what the API server says it will wait. */
import { tryParseDuration } from "@cocoon/core";

export interface TimeLimits {
  /** Share of the API server's patience that a handler may use; the rest is for the way back. */
  readonly share: number;
  /** Patience assumed when the request does not say. */
  readonly defaultTimeoutMs: number;
  /** No API server waits longer than this, whatever the request says. */
  readonly maxTimeoutMs: number;
}

export const defaultTimeLimits: TimeLimits = { share: 0.8, defaultTimeoutMs: 10_000, maxTimeoutMs: 30_000 };

/** The API server sends `?timeout=10s`, in Go's notation. */
export function budgetOf(query: string, limits: TimeLimits): number {
  const given = tryParseDuration(new URLSearchParams(query).get("timeout") ?? "");
  const timeoutMs = given !== undefined && given > 0 ? given : limits.defaultTimeoutMs;
  return Math.min(timeoutMs, limits.maxTimeoutMs) * limits.share;
}
