/**
 * A new name is on disk once its directory is. Many commits at a time share that flush: whoever asks while one is
 * running waits for the next, which covers everybody who asked before it began.
 */
import { syncDirectory } from "@cocoon/core";

interface Turns {
  running: Promise<void>;
  next: Promise<void> | undefined;
}

export class DirectorySync {
  readonly #turns = new Map<string, Turns>();
  readonly #flush: (directory: string) => Promise<void>;

  constructor(flush: (directory: string) => Promise<void> = syncDirectory) {
    this.#flush = flush;
  }

  /** Resolves when every change made in the directory before the call is on disk. */
  sync(directory: string): Promise<void> {
    const turns = this.#turns.get(directory);
    if (turns === undefined) return this.#begin(directory);
    // The running flush may have missed our change; a failed one must not fail those who come after it.
    turns.next ??= turns.running.catch(() => undefined).then(() => this.#begin(directory));
    return turns.next;
  }

  async #forgetWhenDone(directory: string, turns: Turns): Promise<void> {
    await Promise.allSettled([turns.running]);
    if (turns.next === undefined && this.#turns.get(directory) === turns) this.#turns.delete(directory);
  }

  #begin(directory: string): Promise<void> {
    const turns: Turns = { running: this.#flush(directory), next: undefined };
    this.#turns.set(directory, turns);
    void this.#forgetWhenDone(directory, turns);
    return turns.running;
  }
}
