/** Checks one machine again and again: quickly until it is ready, slowly afterwards. */
import { getErrorMessage, sleep, type Abortable } from "@cocoon/core";
import type { CheckResult } from "./checks.ts";

export interface ProbeTimes {
  readonly firstMs: number;
  readonly growth: number;
  /** Longest pause before ready. */
  readonly maxMs: number;
  readonly readyMs: number;
  /** Failures in a row until a ready machine is called not ready. */
  readonly failures: number;
}

export const defaultProbeTimes: ProbeTimes = {
  firstMs: 100,
  growth: 1.5,
  maxMs: 2_000,
  readyMs: 15_000,
  failures: 3,
};

export interface ProbeOptions extends Abortable {
  readonly check: (options: Abortable) => Promise<CheckResult>;
  /** Called for the first result and whenever readiness changes. Never at once with another call. */
  readonly onChange: (result: CheckResult) => Promise<void>;
  readonly times: ProbeTimes;
}

/** Runs until the signal aborts; never throws. */
export async function probe({ check, onChange, times, signal }: ProbeOptions): Promise<void> {
  let ready: boolean | undefined;
  let failures = 0;
  let pauseMs = times.firstMs;
  while (!signal.aborted) {
    const result = await attempt(check, signal);
    if (signal.aborted) return;
    failures = result.ok ? 0 : failures + 1;
    const next = result.ok || (ready === true && failures < times.failures);
    if (next !== ready) {
      ready = next;
      pauseMs = times.firstMs;
      await onChange({ ok: next, message: result.message });
    }
    await sleep(ready ? times.readyMs : pauseMs, { signal });
    pauseMs = Math.min(pauseMs * times.growth, times.maxMs);
  }
}

async function attempt(check: ProbeOptions["check"], signal: AbortSignal): Promise<CheckResult> {
  try {
    return await check({ signal });
  } catch (error) {
    return { ok: false, message: getErrorMessage(error) };
  }
}
