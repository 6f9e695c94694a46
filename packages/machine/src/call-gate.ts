/**
 * Lookups in a registry that may hang or be unavailable: each has a timeout, a limited number runs at a time, and after
 * several failures in a row the next ones fail at once for a while, so that no caller waits for a registry that does not
 * answer.
 */
import { Fault, getErrorMessage, toFault, type Abortable } from "@cocoon/core";

export interface CallLimits {
  /** Of one call, the wait for its turn not counted. */
  readonly timeoutMs: number;
  /** Calls that run at the same time. */
  readonly concurrency: number;
  /** Failures in a row after which calls are refused for `pauseMs`. */
  readonly maxFailures: number;
  readonly pauseMs: number;
}

const defaultCallLimits: CallLimits = {
  timeoutMs: 10_000,
  concurrency: 16,
  maxFailures: 5,
  pauseMs: 10_000,
};

export class CallGate {
  readonly #limits: CallLimits;
  readonly #waiting: (() => void)[] = [];
  #running = 0;
  #failures = 0;
  #refuseUntilMs = 0;
  #lastFailure = "";

  constructor(limits: Partial<CallLimits> = {}) {
    this.#limits = { ...defaultCallLimits, ...limits };
  }

  async run<T>({ signal }: Abortable, call: (options: Abortable) => Promise<T>): Promise<T> {
    await this.#enter(signal);
    try {
      return await this.#runNow(signal, call);
    } finally {
      this.#running -= 1;
      this.#waiting.shift()?.();
    }
  }

  async #enter(signal: AbortSignal): Promise<void> {
    while (this.#running >= this.#limits.concurrency) {
      const turn = Promise.withResolvers<void>();
      const leave = () => turn.resolve();
      this.#waiting.push(leave);
      signal.addEventListener("abort", leave, { once: true });
      await turn.promise;
      signal.removeEventListener("abort", leave);
      const index = this.#waiting.indexOf(leave);
      if (index >= 0) this.#waiting.splice(index, 1);
      if (signal.aborted) {
        this.#waiting.shift()?.(); // the turn may have been ours: it goes to the next
        signal.throwIfAborted();
      }
    }
    this.#running += 1;
  }

  async #runNow<T>(signal: AbortSignal, call: (options: Abortable) => Promise<T>): Promise<T> {
    if (performance.now() < this.#refuseUntilMs)
      throw new Fault("unavailable", `the registry does not answer: ${this.#lastFailure}`);
    const { timeoutMs } = this.#limits;
    const deadline = AbortSignal.timeout(timeoutMs);
    try {
      const result = await call({ signal: AbortSignal.any([signal, deadline]) });
      this.#failures = 0;
      return result;
    } catch (error) {
      if (signal.aborted) throw error;
      const fault = deadline.aborted
        ? new Fault("timeout", `the registry did not answer within ${timeoutMs} ms`, { cause: error })
        : toFault(error);
      if (isOutage(fault)) this.#note(fault);
      throw fault;
    }
  }

  #note(fault: Fault): void {
    this.#failures += 1;
    this.#lastFailure = getErrorMessage(fault);
    if (this.#failures >= this.#limits.maxFailures)
      this.#refuseUntilMs = performance.now() + this.#limits.pauseMs;
  }
}

/** The registry as a whole, not one snapshot in it. */
function isOutage(fault: Fault): boolean {
  return fault.traits.retry && fault.code !== "conflict" && fault.code !== "damaged";
}
