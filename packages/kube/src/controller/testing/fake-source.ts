/** A source that a test fills by hand, and that can stop showing changes for a while. */
import { getKey, keyText, type KubeObject, type ObjectKey } from "../../object.ts";
import type { Change, Source } from "../watches.ts";

export class FakeSource<T extends KubeObject> implements Source<T> {
  readonly #objects = new Map<string, T>();
  readonly #listeners = new Set<(change: Change<T>) => void>();
  readonly #synced = Promise.withResolvers<void>();
  #version = 0;
  #seen = 0;
  #held: (() => void)[] | undefined;

  constructor(options: { readonly synced?: boolean } = {}) {
    if (options.synced ?? true) this.markSynced();
  }

  get resourceVersion(): string {
    return String(this.#seen);
  }

  markSynced(): void {
    this.#synced.resolve();
  }

  synced({ signal }: { readonly signal: AbortSignal }): Promise<void> {
    signal.addEventListener("abort", () => this.#synced.reject(new Error("aborted")), { once: true });
    return this.#synced.promise;
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(keyText(key));
  }

  list(): Iterable<T> {
    return this.#objects.values();
  }

  subscribe(listener: (change: Change<T>) => void): Disposable {
    for (const object of this.#objects.values()) listener({ kind: "added", object, initial: true });
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  get listenerCount(): number {
    return this.#listeners.size;
  }

  /** The server has the object from now on; returns it with the version it got. */
  set(object: T): T {
    const version = (this.#version += 1);
    const stored = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    this.#show(version, () => {
      const old = this.get(getKey(stored));
      this.#objects.set(keyText(getKey(stored)), stored);
      this.#emit(
        old ? { kind: "updated", old, object: stored } : { kind: "added", object: stored, initial: false },
      );
    });
    return stored;
  }

  delete(key: ObjectKey): void {
    this.#show((this.#version += 1), () => {
      const object = this.get(key);
      this.#objects.delete(keyText(key));
      if (object) this.#emit({ kind: "deleted", object });
    });
  }

  /** From now on nothing new is shown: the watch lags. */
  hold(): void {
    this.#held ??= [];
  }

  /** The watch catches up. */
  release(): void {
    const held = this.#held ?? [];
    this.#held = undefined;
    for (const show of held) show();
  }

  #show(version: number, apply: () => void): void {
    const show = () => {
      apply();
      this.#seen = version;
    };
    if (this.#held) this.#held.push(show);
    else show();
  }

  #emit(change: Change<T>): void {
    for (const listener of this.#listeners) listener(change);
  }
}
