/**
 * A question that many ask at once. Whoever asks while it is being answered waits for the next answer, because what
 * happened before they asked must be in it. So there are at most two under way, however many ask.
 */
export class Coalesced<T> {
  readonly #ask: () => Promise<T>;
  #running: Promise<T> | undefined;
  #next: Promise<T> | undefined;

  constructor(ask: () => Promise<T>) {
    this.#ask = ask;
  }

  ask(): Promise<T> {
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
    const running = this.#ask().finally(() => {
      if (this.#running === running) this.#running = undefined;
    });
    this.#running = running;
    return running;
  }
}
