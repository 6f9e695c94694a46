/** The guarantee, for a limited time, that no other replica acts: granted by a lease, renewed, and ended in time. */
import { Fault, type Clock } from "@cocoon/core";
import type { CallOptions, KubeClient } from "../client/client.ts";

export interface Leadership {
  /** Aborts when this replica no longer leads, before another one can. Everything that acts must end on it. */
  readonly signal: AbortSignal;
  readonly identity: string;
  /** Grows with every change of the holder: a fencing token for what is written. */
  readonly epoch: number;
  /** Throws when leadership is not certain. For right before acting: after a pause other code may run before the timers. */
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

export class Term implements Leadership, Disposable {
  readonly identity: string;
  readonly epoch: number;
  readonly #clock: Clock;
  readonly #renewDeadlineMs: number;
  readonly #abort = new AbortController();
  readonly signal: AbortSignal = this.#abort.signal;
  #sent: Sent;
  #cancel: (() => void) | undefined;

  constructor(options: TermOptions, sent: Sent) {
    this.#clock = options.clock;
    this.identity = options.identity;
    this.epoch = options.epoch;
    this.#renewDeadlineMs = options.renewDeadlineMs;
    this.#sent = sent;
  }

  get sentAt(): number {
    return this.#sent.sentAt;
  }

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

/** A client that writes only while its leadership is certain: checked right before each write, ended with it. */
export function guardedClient(client: KubeClient, leadership: Leadership): KubeClient {
  const guarded = <O extends CallOptions>(options: O): O => {
    leadership.assertHeld();
    return { ...options, signal: AbortSignal.any([options.signal, leadership.signal]) };
  };
  return {
    get: (type, key, options) => client.get(type, key, options),
    list: (type, options) => client.list(type, options),
    pages: (type, options) => client.pages(type, options),
    create: async (type, object, options) => client.create(type, object, guarded(options)),
    update: async (type, object, options) => client.update(type, object, guarded(options)),
    patch: async (type, target, options) => client.patch(type, target, guarded(options)),
    delete: async (type, key, options) => client.delete(type, key, guarded(options)),
    raw: async (request) => client.raw(request.method === "GET" ? request : guarded(request)),
    // The connection belongs to the caller that opened it.
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}
