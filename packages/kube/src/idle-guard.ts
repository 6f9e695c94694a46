/**
 * Notices that nothing came for a while. One timer however often `touch` is called; after a pause of the whole process
 * it lets pending input be read first, since the clock went on while nobody could look.
 */
export class IdleGuard implements Disposable {
  readonly #limitMs: number;
  readonly #onIdle: () => void;
  #lastTouch = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;

  constructor(limitMs: number, onIdle: () => void) {
    this.#limitMs = limitMs;
    this.#onIdle = onIdle;
    this.#arm(limitMs);
  }

  touch(): void {
    this.#lastTouch = performance.now();
  }

  /** Nothing is expected until the next `touch`. */
  pause(): void {
    this.#lastTouch = Number.POSITIVE_INFINITY;
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => {
      if (this.#leftMs() > 0) this.#arm(this.#leftMs());
      else setImmediate(() => this.#decide());
    }, ms);
  }

  #decide(): void {
    if (this.#stopped) return;
    if (this.#leftMs() > 0) this.#arm(this.#leftMs());
    else this.#onIdle();
  }

  #leftMs(): number {
    return Math.min(this.#limitMs, this.#lastTouch + this.#limitMs - performance.now());
  }

  [Symbol.dispose](): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }
}
