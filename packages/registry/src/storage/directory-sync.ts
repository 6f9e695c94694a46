/** A new name is on disk once its directory is. Many commits at a time share that flush. */
import { Coalesced, syncDirectory } from "@cocoon/core";

export class DirectorySync {
  readonly #flushes = new Map<string, Coalesced<void>>();
  readonly #flush: (directory: string) => Promise<void>;

  constructor(flush: (directory: string) => Promise<void> = syncDirectory) {
    this.#flush = flush;
  }

  /** Resolves when every change made in the directory before the call is on disk. */
  async sync(directory: string): Promise<void> {
    const flush = this.#flushes.get(directory) ?? new Coalesced(() => this.#flush(directory));
    this.#flushes.set(directory, flush);
    try {
      await flush.get();
    } finally {
      if (flush.isIdle) this.#flushes.delete(directory);
    }
  }
}
