/** Finds the objects of a cache by something other than their key: by node, by owner, by label. */

/** The values under which an object is found; none = not at all. */
export type IndexKeys<T> = (object: T) => Iterable<string>;

export interface CacheIndex<T> {
  get(value: string): readonly T[];
  count(value: string): number;
  values(): Iterable<string>;
}

export interface IndexSource<T> {
  get(key: string): T | undefined;
  failed(error: unknown): void;
}

/** Keeps keys, not objects: an update that leaves the values alone touches nothing here. */
export class KeyIndex<T> implements CacheIndex<T> {
  readonly #readKeys: IndexKeys<T>;
  readonly #source: IndexSource<T>;
  readonly #keys = new Map<string, Set<string>>();

  constructor(readKeys: IndexKeys<T>, source: IndexSource<T>) {
    this.#readKeys = readKeys;
    this.#source = source;
  }

  get(value: string): readonly T[] {
    const found: T[] = [];
    for (const key of this.#keys.get(value) ?? []) {
      const object = this.#source.get(key);
      if (object !== undefined) found.push(object);
    }
    return found;
  }

  count(value: string): number {
    return this.#keys.get(value)?.size ?? 0;
  }

  values(): Iterable<string> {
    return this.#keys.keys();
  }

  /** The object with that key was `old` and is `object` now; undefined = was or is not there. */
  change(key: string, old: T | undefined, object: T | undefined): void {
    const before = this.#values(old);
    const after = this.#values(object);
    for (const value of before) if (!after.has(value)) this.#remove(value, key);
    for (const value of after) if (!before.has(value)) this.#add(value, key);
  }

  #values(object: T | undefined): ReadonlySet<string> {
    if (object === undefined) return noValues;
    try {
      return new Set(this.#readKeys(object));
    } catch (error) {
      this.#source.failed(error);
      return noValues;
    }
  }

  #add(value: string, key: string): void {
    const keys = this.#keys.get(value);
    if (keys) keys.add(key);
    else this.#keys.set(value, new Set([key]));
  }

  #remove(value: string, key: string): void {
    const keys = this.#keys.get(value);
    keys?.delete(key);
    if (keys?.size === 0) this.#keys.delete(value);
  }
}

const noValues: ReadonlySet<string> = new Set();
