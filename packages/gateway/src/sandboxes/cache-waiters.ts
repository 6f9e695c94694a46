/** Waiting for an object of a cache to change. */
import type { Abortable } from "@cocoon/core";
import { keyText, type ObjectCache, type ObjectKey } from "@cocoon/kube";
import type { SetObject } from "./sandbox.ts";

export class CacheWaiters implements Disposable {
  readonly #cache: ObjectCache<SetObject>;
  readonly #waiters = new Map<string, Set<() => void>>();
  readonly #subscription: Disposable;

  constructor(cache: ObjectCache<SetObject>) {
    this.#cache = cache;
    this.#subscription = cache.subscribe((event) => {
      if (!("object" in event)) return;
      const { namespace, name = "" } = event.object.metadata;
      for (const wake of this.#waiters.get(keyText({ namespace, name })) ?? []) wake();
    });
  }

  /** Resolves with what `check` returns once that is not undefined; `check` may throw. */
  async waitFor<T>(
    key: ObjectKey,
    check: (set: SetObject | undefined) => T | undefined,
    { signal }: Abortable,
  ): Promise<T> {
    const text = keyText(key);
    for (;;) {
      signal.throwIfAborted();
      const { promise, resolve } = Promise.withResolvers<void>();
      const waiters = this.#waiters.get(text) ?? new Set();
      this.#waiters.set(text, waiters.add(resolve));
      signal.addEventListener("abort", () => resolve(), { once: true });
      try {
        const value = check(this.#cache.get(key));
        if (value !== undefined) return value;
        await promise;
      } finally {
        waiters.delete(resolve);
        if (waiters.size === 0 && this.#waiters.get(text) === waiters) this.#waiters.delete(text);
      }
    }
  }

  [Symbol.dispose](): void {
    this.#subscription[Symbol.dispose]();
  }
}
