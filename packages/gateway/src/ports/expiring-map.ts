/** What was looked up a moment ago; the same lookup at the same time is made once. */
interface Entry<T> {
  readonly value: Promise<T>;
  readonly until: number;
}

const mostEntries = 10_000;

export class ExpiringMap<T> {
  readonly #entries = new Map<string, Entry<T>>();
  readonly #keepMs: number;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  get(key: string, read: () => Promise<T>): Promise<T> {
    const known = this.#entries.get(key);
    if (known && known.until > performance.now()) return known.value;
    const value = read();
    if (this.#entries.size >= mostEntries) this.#entries.clear();
    this.#entries.set(key, { value, until: performance.now() + this.#keepMs });
    value.catch(() => this.#entries.delete(key));
    return value;
  }

  clear(): void {
    this.#entries.clear();
  }
}
