/** Time as the controllers see it, so that tests can move it. */

export interface Clock {
  /** Milliseconds that only ever grow; differences are what counts. Not comparable between machines. */
  now(): number;
  /** Milliseconds since the epoch, for what others read. May jump. */
  wallNow(): number;
  /** Calls back once, not before `ms` have passed; the returned function cancels. */
  schedule(ms: number, callback: () => void): () => void;
}

/** Node fires a longer timer at once. */
const longestTimerMs = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => performance.now(),
  wallNow: () => Date.now(),
  schedule: (ms, callback) => {
    let remainingMs = ms;
    let timer: NodeJS.Timeout;
    const wait = (): void => {
      const stepMs = Math.min(Math.max(0, remainingMs), longestTimerMs);
      remainingMs -= stepMs;
      timer = setTimeout(() => (remainingMs > 0 ? wait() : callback()), stepMs);
    };
    wait();
    return () => clearTimeout(timer);
  },
};

/** Waits; resolves early, without throwing, when the signal aborts. Returns false in that case. */
export function clockSleep(clock: Clock, ms: number, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  return new Promise((resolve) => {
    const stop = (): void => {
      cancel();
      resolve(false);
    };
    const cancel = clock.schedule(ms, () => {
      signal.removeEventListener("abort", stop);
      resolve(true);
    });
    signal.addEventListener("abort", stop, { once: true });
  });
}
