/**
 * Guests that QEMU froze because the host's disk is full resume by themselves once there is room. A guest that finds the
 * disk full again is frozen again, so the room required grows and tries are spaced out.
 */
import { statfs } from "node:fs/promises";
import { Backoff, getErrorMessage, sleep } from "@cocoon/core";
import type { QemuContext } from "../context.ts";
import { resumeVm } from "../machine/lifecycle.ts";

const mebibyte = 1024 * 1024;
const firstRoomBytes = 64 * mebibyte;
const mostRoomBytes = 1024 * mebibyte;
const resumeMs = 30_000;

export class FullDiskResumer implements Disposable {
  readonly #context: QemuContext;
  readonly #isFrozen: (id: string) => boolean;
  readonly #stop = new AbortController();
  /** How much room each guest is to find; it grows with every time that was not enough. */
  readonly #wanted = new Map<string, number>();
  readonly #watched = new Set<string>();

  constructor(context: QemuContext, isFrozen: (id: string) => boolean) {
    this.#context = context;
    this.#isFrozen = isFrozen;
  }

  /** The guest was just frozen. */
  watch(id: string): void {
    if (this.#watched.has(id)) return;
    this.#watched.add(id);
    void this.#resumeWhenRoom(id).finally(() => this.#watched.delete(id));
  }

  [Symbol.dispose](): void {
    this.#stop.abort();
  }

  async #resumeWhenRoom(id: string): Promise<void> {
    const { log } = this.#context;
    const { signal } = this.#stop;
    const backoff = new Backoff({ baseMs: 1_000, maxMs: 15_000 });
    const wanted = this.#wanted.get(id) ?? firstRoomBytes;
    while (await sleep(backoff.nextMs(), { signal })) {
      if (!this.#isFrozen(id)) return; // resumed by its user, or gone
      try {
        if ((await this.#freeBytes()) < wanted) continue;
        this.#wanted.set(id, Math.min(2 * wanted, mostRoomBytes));
        await resumeVm(this.#context, id, { signal: AbortSignal.timeout(resumeMs) });
        log.info({ vm: id }, "vm resumed: its disk can be written again");
        return;
      } catch (error) {
        log.warn(
          { vm: id, error: getErrorMessage(error) },
          "vm frozen by a full disk could not be resumed yet",
        );
      }
    }
  }

  async #freeBytes(): Promise<number> {
    const { bavail, bsize } = await statfs(this.#context.store.layout.root);
    return bavail * bsize;
  }
}
