/**
 * Says when our own write has come back through the watch. The watch delivers all writes in the order in which they
 * happened; when it has delivered ours, it has delivered everything that was written before, in every pool. So of two
 * writers who took the same name in different objects, the later one always learns of the earlier.
 */
export class WatchProgress {
  #version = 0n;
  #waiting: { readonly version: bigint; readonly seen: () => void }[] = [];

  /** The watch has delivered everything up to this version. */
  advance(version: bigint): void {
    if (version <= this.#version) return;
    this.#version = version;
    const due = this.#waiting.filter((each) => each.version <= version);
    if (due.length === 0) return;
    this.#waiting = this.#waiting.filter((each) => each.version > version);
    // Not at once: after an interruption the news come in no order, all in this turn.
    queueMicrotask(() => {
      for (const each of due) each.seen();
    });
  }

  /** Calls back when that version is reached, or at once; the returned function cancels. */
  when(version: bigint, seen: () => void): () => void {
    if (version <= this.#version) {
      seen();
      return () => undefined;
    }
    const waiting = { version, seen };
    this.#waiting.push(waiting);
    return () => void (this.#waiting = this.#waiting.filter((each) => each !== waiting));
  }
}
