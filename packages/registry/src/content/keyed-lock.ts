/** One at a time per key, first come first served; different keys never wait for each other. */
export class KeyedLock<K> {
  readonly #tails = new Map<K, Promise<void>>();

  async run<T>(key: K, action: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key);
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#tails.set(key, promise);
    try {
      await before;
      return await action();
    } finally {
      if (this.#tails.get(key) === promise) this.#tails.delete(key);
      resolve();
    }
  }
}
