/** Which objects cannot be brought to rest right now, and why. */
import type { Fault } from "@cocoon/core";
import type { ObjectKey } from "../object.ts";

export interface ReconcileFailure {
  readonly key: ObjectKey;
  readonly fault: Fault;
  /** Trying again is not expected to help: it waits for a change, or the longest delay. */
  readonly terminal: boolean;
  readonly failures: number;
  readonly retryInMs: number;
}

/** Beyond this many the oldest are forgotten here; their back-off goes on. */
const maxFailures = 10_000;

export class FailureLog {
  readonly #failures = new Map<string, ReconcileFailure>();

  note(key: string, failure: ReconcileFailure): void {
    this.#failures.delete(key); // the newest goes last
    this.#failures.set(key, failure);
    const oldest = this.#failures.keys().next().value;
    if (this.#failures.size > maxFailures && oldest !== undefined) this.#failures.delete(oldest);
  }

  clear(key: string): void {
    this.#failures.delete(key);
  }

  list(): readonly ReconcileFailure[] {
    return [...this.#failures.values()];
  }

  counts(): { readonly retrying: number; readonly terminal: number } {
    const terminal = this.list().filter((failure) => failure.terminal).length;
    return { retrying: this.#failures.size - terminal, terminal };
  }
}
