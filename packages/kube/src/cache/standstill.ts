/**
 * Notices that this process did not run for a while: it was stopped by a signal, its container was frozen or its host suspended.
 * What it would have seen in that time, such as a server that went away, it has not seen.
 */
const beatMs = 1_000;

export class Standstill implements Disposable {
  readonly #limitMs: number;
  readonly #timer: NodeJS.Timeout;
  #last = readClocks();
  #stood = false;

  constructor(limitMs: number) {
    this.#limitMs = limitMs;
    this.#timer = setInterval(() => this.#beat(), Math.min(beatMs, limitMs / 2)).unref();
  }

  /** Whether it stood still since the last call. */
  take(): boolean {
    this.#beat();
    const stood = this.#stood;
    this.#stood = false;
    return stood;
  }

  #beat(): void {
    const now = readClocks();
    if (now.some((ms, index) => ms - (this.#last[index] ?? ms) > this.#limitMs)) this.#stood = true;
    this.#last = now;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** The monotonic clock does not count the time that a host is suspended; the other one does, and may be set. */
function readClocks(): readonly number[] {
  return [performance.now(), Date.now()];
}
