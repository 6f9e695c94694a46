/** Notices that nothing came for a while; after a pause of the whole process pending input is read first. */
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
