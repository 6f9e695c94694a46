/** The objects of a cache and their indexes. Knows no network: it is given changes and returns events. */
import { KeyIndex, type CacheIndex, type IndexKeys } from "./cache-index.ts";
import type { KubeObject } from "../object.ts";

export type CacheEvent<T> =
  /** `initial`: it was there when the listener came or when the first list arrived; nothing happened just now. */
  | { readonly kind: "added"; readonly object: T; readonly initial: boolean }
  | { readonly kind: "updated"; readonly old: T; readonly object: T }
  /** `inferred`: no deletion event was seen, a later list lacked the object; also after the storage was restored. */
  | { readonly kind: "deleted"; readonly object: T; readonly inferred?: boolean };

export class CacheStore<T extends KubeObject> {
  #objects = new Map<string, T>();
  readonly #indexes = new Map<IndexKeys<T>, KeyIndex<T>>();
  readonly #indexFailed: (error: unknown) => void;

  constructor(indexFailed: (error: unknown) => void) {
    this.#indexFailed = indexFailed;
  }

  get size(): number {
    return this.#objects.size;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key);
  }

  values(): Iterable<T> {
    return this.#objects.values();
  }

  /** The index by that function; the same function has one index, however often it is requested. */
  index(readKeys: IndexKeys<T>): CacheIndex<T> {
    const known = this.#indexes.get(readKeys);
    if (known) return known;
    const index = new KeyIndex(readKeys, {
      get: (key) => this.#objects.get(key),
      failed: this.#indexFailed,
    });
    for (const [key, object] of this.#objects) index.change(key, undefined, object);
    this.#indexes.set(readKeys, index);
    return index;
  }

  put(key: string, object: T): CacheEvent<T>[] {
    const old = this.#objects.get(key);
    this.#objects.set(key, object);
    this.#reindex(key, old, object);
    return buildEvents(old, object, false);
  }

  remove(key: string, last?: T): CacheEvent<T>[] {
    const old = this.#objects.get(key);
    if (old === undefined) return [];
    this.#objects.delete(key);
    this.#reindex(key, old, undefined);
    return [{ kind: "deleted", object: last ?? old }];
  }

  /** Replaces everything at once. `keep` decides about objects that are missing and yet not known to be gone. */
  swap(next: Map<string, T>, options: SwapOptions): CacheEvent<T>[] {
    const before = this.#objects;
    const events: CacheEvent<T>[] = [];
    const gone: [string, T][] = [];
    for (const [key, old] of before) {
      if (next.has(key)) continue;
      if (options.keep(key)) next.set(key, old);
      else gone.push([key, old]);
    }
    this.#objects = next;
    for (const [key, old] of gone) {
      this.#reindex(key, old, undefined);
      events.push({ kind: "deleted", object: old, inferred: true });
    }
    for (const [key, object] of next) {
      const old = before.get(key);
      if (old === object) continue;
      this.#reindex(key, old, object);
      events.push(...buildEvents(old, object, options.initial));
    }
    return events;
  }

  #reindex(key: string, old: T | undefined, object: T | undefined): void {
    for (const index of this.#indexes.values()) index.change(key, old, object);
  }
}

export interface SwapOptions {
  readonly keep: (key: string) => boolean;
  readonly initial: boolean;
}

/** A name that was given to another object is one that went and one that came. */
function buildEvents<T extends KubeObject>(old: T | undefined, object: T, initial: boolean): CacheEvent<T>[] {
  if (old === undefined) return [{ kind: "added", object, initial }];
  if (old.metadata.uid !== object.metadata.uid)
    return [
      { kind: "deleted", object: old, inferred: true },
      { kind: "added", object, initial: false },
    ];
  return [{ kind: "updated", old, object }];
}
