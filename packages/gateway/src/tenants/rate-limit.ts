/** Requests per key: a bucket that fills at a steady rate. */
import { ApiError } from "../http/answer.ts";

interface Bucket {
  tokens: number;
  at: number;
}

const mostBuckets = 10_000;

export class RateLimit {
  readonly #buckets = new Map<string, Bucket>();
  readonly #perSecond: number;
  readonly #burst: number;

  constructor({ perSecond, burst }: { readonly perSecond: number; readonly burst: number }) {
    this.#perSecond = perSecond;
    this.#burst = burst;
  }

  /** Throws 429 when the key has used up its requests. */
  take(keyId: string, nowMs: number = performance.now()): void {
    if (this.#buckets.size > mostBuckets) this.#buckets.clear();
    const bucket = this.#buckets.get(keyId) ?? { tokens: this.#burst, at: nowMs };
    const refilled = bucket.tokens + ((nowMs - bucket.at) / 1000) * this.#perSecond;
    bucket.tokens = Math.min(this.#burst, refilled) - 1;
    bucket.at = nowMs;
    this.#buckets.set(keyId, bucket);
    if (bucket.tokens >= 0) return;
    bucket.tokens += 1;
    throw new ApiError(429, `more than ${this.#perSecond} requests a second`, {
      headers: { "retry-after": "1" },
    });
  }
}
