/** Waits until the world looks as asserted; when it never does, the last assertion error is the test's failure. */
import { sleep } from "@cocoon/core";

export interface EventuallyOptions {
  readonly timeoutMs?: number;
  readonly intervalMs?: number;
  readonly signal?: AbortSignal;
}

export async function eventually<T>(
  check: () => T | Promise<T>,
  { timeoutMs = 60_000, intervalMs = 25, signal = new AbortController().signal }: EventuallyOptions = {},
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (performance.now() > deadline || signal.aborted) throw error;
    }
    await sleep(intervalMs, { signal });
  }
}
