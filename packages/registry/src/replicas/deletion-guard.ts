/**
 * Between replicas that rely on content and the one replica that collects garbage, on storage that they share. Before it
 * deletes, the collector marks what it is about to delete, waits, checks again and only then deletes:
 *
 *   collector   mark ── wait (settle time) ── check again ── delete ── unmark
 *   user        look for the mark ── act ── look for the mark ── done, or wait for its end and act again
 *
 * A user whose two looks are closer than the settle time either acted before the second check, which then finds what it
 * did, or sees the mark. A storage of one process needs none of this.
 */
import { Fault, sleep } from "@cocoon/core";
import type { Digest, RepositoryName } from "../names.ts";
import { folders, layout, type StorageKey } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";

/** Marks of a collector that died are void after this time. */
const staleMs = 10 * 60_000;
/** How long a user waits for the end of a deletion. */
const timeoutMs = 60_000;
const pollMs = 200;
const nothing = new Uint8Array();

export class DeletionGuard {
  readonly settleMs: number;
  readonly #storage: Storage;

  constructor(storage: Storage, settleMs: number) {
    this.#storage = storage;
    this.settleMs = storage.isShared ? settleMs : 0;
  }

  /** A shorter lease would not outlast the deletion that it protects from. */
  get minLeaseMs(): number {
    return 4 * this.settleMs;
  }

  get isNeeded(): boolean {
    return this.#storage.isShared;
  }

  /** Runs an action that relies on the blob; it may run more than once. */
  useBlob<T>(digest: Digest, action: () => Promise<T>): Promise<T> {
    return this.#use(layout.condemnedBlob(digest), action);
  }

  /** Runs an action that changes tags or manifests; it may run more than once. */
  useRepository<T>(name: RepositoryName, action: () => Promise<T>): Promise<T> {
    return this.#use(layout.condemnedRepository(name), action);
  }

  async #use<T>(mark: StorageKey, action: () => Promise<T>): Promise<T> {
    if (!this.isNeeded) return action();
    for (;;) {
      await this.#waitForEnd(mark);
      const startedMs = performance.now();
      const result = await action();
      const isMarked = (await this.#storage.stat(mark)) !== undefined;
      // An action that took long may have missed a mark that came and went.
      if (!isMarked && performance.now() - startedMs < this.settleMs / 2) return result;
    }
  }

  async #waitForEnd(mark: StorageKey): Promise<void> {
    const deadlineMs = performance.now() + timeoutMs;
    for (let info = await this.#storage.stat(mark); info; info = await this.#storage.stat(mark)) {
      if ((await this.#storage.now()) - info.modifiedAtMs > staleMs) await this.#storage.delete(mark);
      if (performance.now() > deadlineMs)
        throw new Fault("unavailable", "garbage collection is deleting this content; try again", {
          retryAfterMs: 5_000,
        });
      await sleep(pollMs, { signal: new AbortController().signal });
    }
  }

  /** For the collector: marks are removed when the action ends. The action must check again before it deletes. */
  async condemn<T>(marks: readonly StorageKey[], action: () => Promise<T>): Promise<T> {
    if (!this.isNeeded) return action();
    try {
      for (const mark of marks) await this.#storage.put(mark, nothing);
      await sleep(this.settleMs, { signal: new AbortController().signal });
      return await action();
    } finally {
      for (const mark of marks) await this.#storage.delete(mark);
    }
  }

  /** Removes marks of a collector that died; only for the holder of the lease. */
  async clear(): Promise<void> {
    if (!this.isNeeded) return;
    for await (const { key } of this.#storage.list(folders.condemned)) await this.#storage.delete(key);
  }
}
