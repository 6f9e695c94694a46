/**
 * Between requests that rely on a blob and the garbage collector of this process. Every commit, mount, lookup or use of a
 * blob passes through here; the collector may remove only blobs that no request uses or used since its run began. Requests
 * wait only for a removal of that very blob.
 */
import type { Digest } from "../names.ts";

export interface Sweep extends Disposable {
  /** Runs the removal unless the blob is, or was meanwhile, in use; says whether it ran. */
  tryRemove(digest: Digest, remove: () => Promise<void>): Promise<boolean>;
}

export class SweepGate {
  readonly #users = new Map<Digest, number>();
  readonly #removals = new Map<Digest, Promise<void>>();
  /** What was used since the running sweep began; undefined while none runs. */
  #usedSince: Set<Digest> | undefined;

  use<T>(digest: Digest, action: () => Promise<T>): Promise<T> {
    return this.useAll([digest], action);
  }

  /** While the action runs, none of these can be removed. */
  async useAll<T>(digests: readonly Digest[], action: () => Promise<T>): Promise<T> {
    for (const digest of digests) {
      for (let removal = this.#removals.get(digest); removal; removal = this.#removals.get(digest))
        await removal;
      this.#usedSince?.add(digest);
      this.#users.set(digest, (this.#users.get(digest) ?? 0) + 1);
    }
    try {
      return await action();
    } finally {
      for (const digest of digests) this.#release(digest);
    }
  }

  #release(digest: Digest): void {
    const left = (this.#users.get(digest) ?? 1) - 1;
    if (left === 0) this.#users.delete(digest);
    else this.#users.set(digest, left);
  }

  /** One sweep at a time; the caller sees to that. */
  beginSweep(): Sweep {
    const usedSince = new Set<Digest>(this.#users.keys());
    this.#usedSince = usedSince;
    return {
      tryRemove: (digest, remove) => this.#tryRemove(digest, remove),
      [Symbol.dispose]: () => {
        if (this.#usedSince === usedSince) this.#usedSince = undefined;
      },
    };
  }

  async #tryRemove(digest: Digest, remove: () => Promise<void>): Promise<boolean> {
    if (this.#usedSince?.has(digest) || this.#users.has(digest)) return false;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#removals.set(digest, promise);
    try {
      await remove();
      return true;
    } finally {
      this.#removals.delete(digest);
      resolve();
    }
  }
}
