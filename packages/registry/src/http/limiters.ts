/** How many requests a caller may send, and how many wrong credentials an address. */
import { ociFault } from "../oci-fault.ts";

export interface LimiterOptions {
  readonly requestsPerSecond: number;
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

  /** Throws with the time to wait when there is none to take. */
  take(key: string, message: string): void {
    if (this.#perMs === 0) return;
    const bucket = this.#filled(key);
    if (bucket.tokens < 1)
      throw ociFault("TOOMANYREQUESTS", message, { retryAfterMs: (1 - bucket.tokens) / this.#perMs });
    bucket.tokens -= 1;
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

  /** Throws when the caller sends requests faster than allowed; otherwise counts the request. */
  assertNotTooFast(caller: string): void {
    this.#requests.take(caller, "too many requests of this caller");
  }

  /** Counts wrong credentials of that address; throws when there were too many lately. Right ones are never refused. */
  countFailure(remote: string): void {
    this.#failures.take(remote, "too many failed logins from this address");
  }
}
