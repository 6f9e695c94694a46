/** Identities of objects that were seen stored lately, also when they are gone again. */
import type { CacheListener, KubeObject } from "@cocoon/kube";

/** Longer than anything is held that is not known to be stored. */
const rememberMs = 120_000;

export class SeenUids {
  readonly #seen = new Map<string, number>();
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  follow(cache: { readonly subscribe: (listener: CacheListener<KubeObject>) => unknown }): void {
    cache.subscribe((event) => {
      // What was there from the start is listed; only what comes can go unnoticed.
      if (event.kind === "added" && !event.initial) this.add(event.object.metadata.uid ?? "");
    });
  }

  add(uid: string): void {
    const now = this.#nowMs();
    this.#seen.set(uid, now);
    for (const [oldest, atMs] of this.#seen) {
      if (now - atMs < rememberMs) break;
      this.#seen.delete(oldest);
    }
  }

  has(uid: string): boolean {
    return this.#seen.has(uid);
  }
}
