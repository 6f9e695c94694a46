/** Any number of values under a key. */
export class MultiMap<K, V> {
  readonly #sets = new Map<K, Set<V>>();
  readonly #none: ReadonlySet<V> = new Set();

  get(key: K): ReadonlySet<V> {
    return this.#sets.get(key) ?? this.#none;
  }

  entries(): Iterable<readonly [K, ReadonlySet<V>]> {
    return this.#sets;
  }

  add(key: K, value: V): void {
    const set = this.#sets.get(key);
    if (set) set.add(value);
    else this.#sets.set(key, new Set([value]));
  }

  remove(key: K, value: V): void {
    const set = this.#sets.get(key);
    set?.delete(value);
    if (set?.size === 0) this.#sets.delete(key);
  }
}
