/** Waiting that can be stopped. Every function that waits takes a signal; abort is not an error. */
import { setTimeout as delay } from "node:timers/promises";
import { Fault } from "./fault.ts";

export interface Abortable {
  readonly signal: AbortSignal;
}

/** Resolves when the signal aborts; never rejects. */
export function aborted(signal: AbortSignal): Promise<void> {
  if (signal.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

/** Waits; resolves early, without throwing, when the signal aborts. Returns false in that case. */
export async function sleep(ms: number, { signal }: Abortable): Promise<boolean> {
  if (signal.aborted) return false;
  try {
    await delay(Math.max(0, ms), undefined, { signal });
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    throw error;
  }
}

/** A signal that aborts with the given one, or with a TimeoutError after `ms`. */
export function withDeadline(signal: AbortSignal, ms: number): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ms)]);
}

/**
 * The promise, or a rejection as soon as the signal aborts. The loser is left to finish on its own. With `late`, a deadline
 * that passed is a `timeout` of that message.
 */
export async function orAborted<T>(
  promise: Promise<T>,
  { signal, late }: Abortable & { readonly late?: string },
): Promise<T> {
  const stopped = Promise.withResolvers<never>();
  const stop = (): void => stopped.reject(readAbortReason(signal, late));
  if (signal.aborted) stop();
  else signal.addEventListener("abort", stop, { once: true });
  try {
    return await Promise.race([stopped.promise, promise]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function readAbortReason({ reason }: AbortSignal, late: string | undefined): Error {
  if (!(reason instanceof Error)) return new Error("aborted");
  return late !== undefined && reason.name === "TimeoutError" ? new Fault("timeout", late) : reason;
}
