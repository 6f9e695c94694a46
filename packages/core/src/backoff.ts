/** Exponential back-off with jitter, as one small object that counts failures. */
export interface BackoffOptions {
  readonly baseMs: number;
  readonly maxMs: number;
  readonly factor?: number;
  readonly jitter?: number;
  readonly random?: () => number;
}

export class Backoff {
  #failures = 0;
  readonly #options: Required<BackoffOptions>;

  constructor(options: BackoffOptions) {
    this.#options = { factor: 2, jitter: 0.3, random: Math.random, ...options };
  }

  get failures(): number {
    return this.#failures;
  }

  /** Counts one more failure and says how long to wait before the next try. */
  nextMs(): number {
    const ms = backoffMs(this.#failures, this.#options);
    this.#failures += 1;
    return ms;
  }

  reset(): void {
    this.#failures = 0;
  }
}

/** Delay after `failures` earlier failures; within [delay * (1 - jitter), delay]. */
export function backoffMs(failures: number, options: BackoffOptions): number {
  const { baseMs, maxMs, factor = 2, jitter = 0.3, random = Math.random } = options;
  const full = Math.min(maxMs, baseMs * factor ** Math.min(failures, 64));
  return full * (1 - jitter * random());
}
