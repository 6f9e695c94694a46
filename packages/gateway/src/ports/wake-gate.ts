/** Requests that wait for a machine: one wake for all of them, and no more of them than fit. */
import { orAborted, withDeadline, type Abortable } from "@cocoon/core";
import type { Sandbox } from "../sandboxes/sandbox.ts";
import { TrafficError } from "./data-plane.ts";

export interface WakeGateOptions {
  /** Makes the sandbox ready; called once for all who wait at the same time. */
  readonly wake: (sandbox: Sandbox, options: Abortable) => Promise<Sandbox>;
  readonly maxHeld: number;
  readonly holdMs: number;
}

const retryAfterSeconds = 1;

export class WakeGate {
  readonly #options: WakeGateOptions;
  readonly #waking = new Map<string, Promise<Sandbox>>();
  #held = 0;

  constructor(options: WakeGateOptions) {
    this.#options = options;
  }

  get held(): number {
    return this.#held;
  }

  /** Resolves when the machine is ready. 503 when too many wait, or it takes too long. */
  async pass(sandbox: Sandbox, { signal }: Abortable): Promise<Sandbox> {
    const { maxHeld, holdMs } = this.#options;
    if (this.#held >= maxHeld)
      throw new TrafficError(503, `${maxHeld} requests wait for machines already`, retryAfterSeconds);
    this.#held += 1;
    const deadline = withDeadline(signal, holdMs);
    try {
      return await orAborted(this.#join(sandbox), { signal: deadline });
    } catch (error) {
      if (signal.aborted || !deadline.aborted) throw error;
      throw new TrafficError(503, "the sandbox is still waking", retryAfterSeconds);
    } finally {
      this.#held -= 1;
    }
  }

  /** The wake goes on when the request that began it is given up. */
  #join(sandbox: Sandbox): Promise<Sandbox> {
    const key = `${sandbox.namespace}/${sandbox.id}`;
    const pending = this.#waking.get(key);
    if (pending) return pending;
    const signal = AbortSignal.timeout(this.#options.holdMs);
    const waking = this.#options.wake(sandbox, { signal }).finally(() => this.#waking.delete(key));
    waking.catch(() => undefined);
    this.#waking.set(key, waking);
    return waking;
  }
}
