/** A bounded map whose entries are forgotten after a while; the oldest goes when it is full. */
export class ExpiringMap<T> {
  readonly #entries = new Map<string, { readonly value: T; readonly until: number }>();
  readonly #capacity: number;
  readonly #now: () => number;

  constructor(capacity: number, now: () => number = Date.now) {
    this.#capacity = capacity;
    this.#now = now;
  }

  get(key: string): T | undefined {
    const entry = this.#entries.get(key);
    if (!entry || entry.until <= this.#now()) return undefined;
    return entry.value;
  }

  set(key: string, value: T, keepMs: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { value, until: this.#now() + keepMs });
    const oldest = this.#entries.keys().next().value;
    if (this.#entries.size > this.#capacity && oldest !== undefined) this.#entries.delete(oldest);
  }
}
