/** How fast one caller may ask, and how often one address may be wrong about its password. */
import { ociFault } from "../oci-fault.ts";

export interface LimiterOptions {
  /** Requests per second and caller; 0 for no limit. */
  readonly requestsPerSecond: number;
  /** Failed logins per minute and address; 0 for no limit. */
  readonly failuresPerMinute: number;
  readonly now?: () => number;
}

interface Bucket {
  tokens: number;
  atMs: number;
}

/** Beyond so many callers at once the oldest is forgotten, that is, starts anew. */
const maxBuckets = 10_000;

/** A bucket that fills with a steady rate and holds a burst of two seconds, or of one minute's worth. */
class Buckets {
  readonly #perMs: number;
  readonly #capacity: number;
  readonly #now: () => number;
  readonly #buckets = new Map<string, Bucket>();

  constructor(perMs: number, capacity: number, now: () => number) {
    this.#perMs = perMs;
    this.#capacity = capacity;
    this.#now = now;
  }

  /** Milliseconds to wait until there is one token; 0 when there is. */
  waitMs(key: string): number {
    if (this.#perMs === 0) return 0;
    const { tokens } = this.#filled(key);
    return tokens >= 1 ? 0 : (1 - tokens) / this.#perMs;
  }

  take(key: string): void {
    if (this.#perMs === 0) return;
    const bucket = this.#filled(key);
    bucket.tokens = Math.max(0, bucket.tokens - 1);
  }

  #filled(key: string): Bucket {
    const nowMs = this.#now();
    const known = this.#buckets.get(key);
    const bucket = known ?? { tokens: this.#capacity, atMs: nowMs };
    bucket.tokens = Math.min(this.#capacity, bucket.tokens + (nowMs - bucket.atMs) * this.#perMs);
    bucket.atMs = nowMs;
    if (!known) this.#add(key, bucket);
    return bucket;
  }

  #add(key: string, bucket: Bucket): void {
    const oldest = this.#buckets.size >= maxBuckets ? this.#buckets.keys().next().value : undefined;
    if (oldest !== undefined) this.#buckets.delete(oldest);
    this.#buckets.set(key, bucket);
  }
}

export class Limiters {
  readonly #requests: Buckets;
  readonly #failures: Buckets;

  constructor({ requestsPerSecond, failuresPerMinute, now = () => performance.now() }: LimiterOptions) {
    this.#requests = new Buckets(requestsPerSecond / 1_000, requestsPerSecond * 2, now);
    this.#failures = new Buckets(failuresPerMinute / 60_000, failuresPerMinute, now);
  }

  /** Throws when that caller asks faster than allowed; otherwise counts the request. */
  assertNotTooFast(caller: string): void {
    const waitMs = this.#requests.waitMs(caller);
    if (waitMs > 0)
      throw ociFault("TOOMANYREQUESTS", "too many requests; slow down", { retryAfterMs: waitMs });
    this.#requests.take(caller);
  }

  /** Throws when that address was wrong too often lately. */
  assertMayTry(remote: string): void {
    const waitMs = this.#failures.waitMs(remote);
    if (waitMs > 0)
      throw ociFault("TOOMANYREQUESTS", "too many failed logins from this address", { retryAfterMs: waitMs });
  }

  noteFailure(remote: string): void {
    this.#failures.take(remote);
  }
}
