/** A clock that stands still until a test moves it. */
import type { Clock } from "../clock.ts";

interface Timer {
  readonly at: number;
  readonly order: number;
  readonly callback: () => void;
}

export class FakeClock implements Clock {
  #now = 1_000;
  #wallOffset: number;
  #order = 0;
  readonly #timers = new Set<Timer>();

  constructor(wallNow = Date.UTC(2026, 0, 1)) {
    this.#wallOffset = wallNow - this.#now;
  }

  now(): number {
    return this.#now;
  }

  wallNow(): number {
    return this.#now + this.#wallOffset;
  }

  schedule(ms: number, callback: () => void): () => void {
    const timer: Timer = { at: this.#now + Math.max(0, ms), order: (this.#order += 1), callback };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  }

  get timerCount(): number {
    return this.#timers.size;
  }

  /** Moves the wall clock alone, as an administrator or NTP would. */
  jumpWall(ms: number): void {
    this.#wallOffset += ms;
  }

  /** Lets time pass; timers fire in order, each at its own time. */
  advance(ms: number): void {
    const end = this.#now + ms;
    for (let next = this.#next(end); next; next = this.#next(end)) {
      this.#timers.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
    }
    this.#now = end;
  }

  /** Lets time pass without firing timers: a process that was stopped. What was due fires at the next `advance`. */
  freeze(ms: number): void {
    this.#now += ms;
  }

  #next(end: number): Timer | undefined {
    const due = [...this.#timers].filter((timer) => timer.at <= end);
    return due.sort((a, b) => a.at - b.at || a.order - b.order)[0];
  }
}
