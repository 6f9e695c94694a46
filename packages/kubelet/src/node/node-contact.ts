/** Whether the cluster may have given this node up: without a renewed lease others may fence it and remove its pods. */

/** Longer than a broken watch takes until it is opened again, and has brought what happened meanwhile. */
const settleMs = 5 * 60_000;

export class NodeContact {
  readonly #maxGapMs: number;
  readonly #now: () => number;
  #lastAnswer: number;
  #lostUntil = -Infinity;

  /** A longer gap between two answers of the API server is a loss of contact. The clock must not stand still while the host sleeps. */
  constructor(maxGapMs: number, now: () => number = Date.now) {
    this.#maxGapMs = maxGapMs;
    this.#now = now;
    this.#lastAnswer = now();
  }

  confirm(): void {
    const now = this.#now();
    if (this.#hasGap(now)) this.#lostUntil = now + settleMs;
    this.#lastAnswer = now;
  }

  lose(): void {
    this.#lostUntil = this.#now() + settleMs;
  }

  /** Whether contact is lost, or was until a short while ago. */
  isLost(): boolean {
    const now = this.#now();
    return this.#hasGap(now) || now < this.#lostUntil;
  }

  /** A clock that was set back says nothing about the gap: that counts as one. */
  #hasGap(now: number): boolean {
    return now - this.#lastAnswer > this.#maxGapMs || now < this.#lastAnswer;
  }
}
