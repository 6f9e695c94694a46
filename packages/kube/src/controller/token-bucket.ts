/** So many at once, then one every so often. */
export interface TokenBucketOptions {
  readonly burst: number;
  readonly refillMs: number;
}

export class TokenBucket {
  readonly #options: TokenBucketOptions;
  #tokens: number;
  #at: number;

  constructor(options: TokenBucketOptions, now: number) {
    this.#options = options;
    this.#tokens = options.burst;
    this.#at = now;
  }

  /** Zero when one was taken; otherwise how long until there is one. */
  take(now: number): number {
    const { burst, refillMs } = this.#options;
    this.#tokens = Math.min(burst, this.#tokens + Math.max(0, now - this.#at) / refillMs);
    this.#at = now;
    if (this.#tokens < 1) return (1 - this.#tokens) * refillMs;
    this.#tokens -= 1;
    return 0;
  }
}
