/** Whether the storage works, for readiness checks: each check writes, so its result is used for a while. */
import type { Storage } from "./storage.ts";

const validMs = 10_000;
/** A failure is looked at again sooner. */
const failedMs = 1_000;

export class StorageHealth {
  readonly #storage: Pick<Storage, "check">;
  #validUntilMs = -Infinity;
  #result: Promise<void> = Promise.resolve();

  constructor(storage: Pick<Storage, "check">) {
    this.#storage = storage;
  }

  /** Throws when the storage does not work. Calls at the same time share one check. */
  check(): Promise<void> {
    if (performance.now() >= this.#validUntilMs) {
      this.#validUntilMs = performance.now() + validMs;
      this.#result = this.#storage.check();
      this.#result.catch(() => (this.#validUntilMs = performance.now() + failedMs)); // each caller gets it as well
    }
    return this.#result;
  }
}
