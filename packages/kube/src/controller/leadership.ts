/** The certainty, for a while, that nobody else acts: granted by a lease, renewed, and gone in time. */
import { Fault } from "@cocoon/core";
import type { Clock } from "./clock.ts";

export interface Leadership {
  /** Aborts when we lead no longer, before anybody else can. Everything that acts must end on it. */
  readonly signal: AbortSignal;
  readonly identity: string;
  /** Grows with every change of the holder: a fencing token for what is written. */
  readonly epoch: number;
  /**
   * Throws when we can no longer be sure to lead. To be called right before acting: a process that was stopped for a
   * while may run other code before its timers, and with them `signal`, are served.
   */
  assertHeld(): void;
}

export interface TermOptions {
  readonly clock: Clock;
  readonly identity: string;
  readonly epoch: number;
  readonly renewDeadlineMs: number;
}

interface Sent {
  readonly sentAt: number;
  readonly sentAtWall: number;
}

/** One term of office. */
export class Term implements Leadership, Disposable {
  readonly identity: string;
  readonly epoch: number;
  readonly #clock: Clock;
  readonly #renewDeadlineMs: number;
  readonly #abort = new AbortController();
  #sent: Sent;
  #cancel: (() => void) | undefined;

  constructor(options: TermOptions, sent: Sent) {
    this.#clock = options.clock;
    this.identity = options.identity;
    this.epoch = options.epoch;
    this.#renewDeadlineMs = options.renewDeadlineMs;
    this.#sent = sent;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** When the write was sent that this term rests on. */
  get sentAt(): number {
    return this.#sent.sentAt;
  }

  /** Time left until we must have renewed. */
  get remainingMs(): number {
    // The steady clock stands still while a machine is suspended, the wall clock may jump: the worse one counts.
    const steadyMs = this.#clock.now() - this.#sent.sentAt;
    const wallMs = this.#clock.wallNow() - this.#sent.sentAtWall;
    return this.#renewDeadlineMs - Math.max(steadyMs, wallMs);
  }

  /** A write reached the server in time; it may have been answered late, so look again whether it still counts. */
  renewed(sent: Sent): void {
    if (this.signal.aborted || this.remainingMs <= 0) return this.end("the renewal was answered too late");
    this.#sent = sent;
    this.watch();
  }

  /** Arms the timer that ends the term when it is not renewed. */
  watch(): void {
    this.#cancel?.();
    this.#cancel = this.#clock.schedule(this.remainingMs, () => {
      if (this.remainingMs <= 0) this.end("the lease was not renewed in time");
      else this.watch();
    });
  }

  assertHeld(): void {
    if (!this.signal.aborted && this.remainingMs <= 0) this.end("the lease was not renewed in time");
    this.signal.throwIfAborted();
  }

  end(why: string): void {
    this.#cancel?.();
    if (!this.signal.aborted) this.#abort.abort(new Fault("unavailable", `leadership lost: ${why}`));
  }

  [Symbol.dispose](): void {
    this.#cancel?.();
  }
}
