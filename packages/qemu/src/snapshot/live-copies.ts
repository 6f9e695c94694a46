/**
 * Copies of running guests' memory that were sent in advance, kept for the save that follows: it then writes what changed, which
 * shortens the pause. They lie in work directories, so what a dead process leaves is removed as any other work is.
 */
import type { LiveMemory } from "./save-memory.ts";

interface LiveCopy extends AsyncDisposable {
  readonly memory: LiveMemory;
}

/** A save follows at once, or not at all. */
const keepMs = 60_000;

export class LiveCopies implements AsyncDisposable {
  readonly #kept = new Map<string, { readonly copy: LiveCopy; readonly timer: NodeJS.Timeout }>();

  /** Takes the place of an older one. */
  async keep(vmId: string, copy: LiveCopy): Promise<void> {
    await this.drop(vmId);
    const timer = setTimeout(() => void this.drop(vmId).catch(() => undefined), keepMs).unref();
    this.#kept.set(vmId, { copy, timer });
  }

  /** The caller disposes of it. */
  take(vmId: string): LiveCopy | undefined {
    const kept = this.#kept.get(vmId);
    if (!kept) return undefined;
    clearTimeout(kept.timer);
    this.#kept.delete(vmId);
    return kept.copy;
  }

  async drop(vmId: string): Promise<void> {
    await this.take(vmId)?.[Symbol.asyncDispose]();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const vmId of this.#kept.keys()) await this.drop(vmId);
  }
}
