/** Blobs whose stored content is not what their digest says. They count as missing until they are pushed again. */
import type { Digest } from "../names.ts";
import { folders, lastPart, layout, readName } from "../storage/layout.ts";
import type { Storage } from "../storage/storage.ts";

/** How old the list may be when other processes write to the storage. */
const maxAgeMs = 60_000;

export class DamagedBlobs {
  readonly #storage: Storage;
  readonly #digests = new Set<Digest>();
  #loadedAtMs = -Infinity;

  constructor(storage: Storage) {
    this.#storage = storage;
  }

  get size(): number {
    return this.#digests.size;
  }

  async has(digest: Digest): Promise<boolean> {
    const isOld = this.#storage.isShared && Date.now() - this.#loadedAtMs > maxAgeMs;
    if (isOld || this.#loadedAtMs === -Infinity) await this.load();
    return this.#digests.has(digest);
  }

  async load(): Promise<void> {
    this.#loadedAtMs = Date.now();
    const keys = await Array.fromAsync(this.#storage.list(folders.damaged), ({ key }) => key);
    this.#digests.clear();
    for (const key of keys) {
      const digest = readName.digest(lastPart(key));
      if (digest) this.#digests.add(digest);
    }
  }

  async record(digest: Digest, problem: string): Promise<void> {
    const record = { foundAt: new Date().toISOString(), problem };
    await this.#storage.put(layout.damaged(digest), Buffer.from(JSON.stringify(record)));
    this.#digests.add(digest);
  }

  async clear(digest: Digest): Promise<void> {
    if (!(await this.has(digest))) return;
    await this.#storage.delete(layout.damaged(digest));
    this.#digests.delete(digest);
  }
}
