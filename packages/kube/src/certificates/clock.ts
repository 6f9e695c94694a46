/** Time as certificates see it: injected, so that a year passes in a test without waiting. */
import { sleep } from "@cocoon/core";

export interface Clock {
  nowMs(): number;
  /** False when the signal aborted first. */
  sleep(ms: number, options: { readonly signal: AbortSignal }): Promise<boolean>;
}

export const systemClock: Clock = { nowMs: () => Date.now(), sleep };
