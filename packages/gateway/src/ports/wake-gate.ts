/** Requests that wait for a machine: one wake for all of them, no more of them than fit, and a few at a time when it is ready. */
import { orAborted, withDeadline, type Abortable } from "@cocoon/core";
import { TrafficError } from "./data-plane.ts";
import { HeldTurns } from "./held-turns.ts";

export interface WakeGateOptions {
  readonly maxHeld: number;
  readonly holdMs: number;
}

export interface Wake<T> extends Abortable {
  /** Namespace and name of the machine. */
  readonly key: string;
  /** Makes the machine ready; called once for all who wait at the same time. */
  readonly wake: (options: Abortable) => Promise<T>;
}

const retryAfterSeconds = 1;

export class WakeGate<T> {
  readonly #options: WakeGateOptions;
  readonly #waking = new Map<string, Promise<T>>();
  readonly #turns = new HeldTurns();
  #held = 0;

  constructor(options: WakeGateOptions) {
    this.#options = options;
  }

  get held(): number {
    return this.#held;
  }

  /** Resolves when the machine is ready and it is this request's turn. 503 when too many wait, or it takes too long. */
  async pass({ key, wake, signal }: Wake<T>): Promise<{ readonly machine: T; readonly turn: Disposable }> {
    const { maxHeld, holdMs } = this.#options;
    if (this.#held >= maxHeld)
      throw new TrafficError(503, `${maxHeld} requests wait for machines already`, retryAfterSeconds);
    this.#held += 1;
    const deadline = { signal: withDeadline(signal, holdMs) };
    try {
      const machine = await orAborted(this.#join(key, wake), deadline);
      return { machine, turn: await this.#turns.take(key, deadline) };
    } catch (error) {
      if (signal.aborted || !deadline.signal.aborted) throw error;
      throw new TrafficError(503, "the machine is still waking", retryAfterSeconds);
    } finally {
      this.#held -= 1;
    }
  }

  /** The wake goes on when the request that began it is given up. */
  #join(key: string, wake: Wake<T>["wake"]): Promise<T> {
    const pending = this.#waking.get(key);
    if (pending) return pending;
    const signal = AbortSignal.timeout(this.#options.holdMs);
    const waking = wake({ signal }).finally(() => this.#waking.delete(key));
    waking.catch(() => undefined);
    this.#waking.set(key, waking);
    return waking;
  }
}
