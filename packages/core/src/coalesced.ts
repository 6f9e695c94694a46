/**
 * A lookup that many callers need at once. A caller that comes while one is running waits for the next one, because what
 * happened before must be in it. So at most two are under way, however many callers there are.
 */
export class Coalesced<T> {
  readonly #lookUp: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(lookUp: () => Promise<T>) {
    this.#lookUp = lookUp;
  }

  get isIdle(): boolean {
    return !this.#running && !this.#next;
  }

  get(): Promise<T> {
    if (!this.#running) return this.#start();
    if (this.#next) return this.#next;
    const follow = () => {
      this.#next = undefined;
      return this.#start();
    };
    this.#next = this.#running.then(follow, follow);
    return this.#next;
  }

  #start(): Promise<T> {
    const running = this.#lookUp().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
