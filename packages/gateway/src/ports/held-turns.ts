/**
 * Requests that waited for a machine go to it a few at a time. A server in a guest holds about ten connections that it has not taken yet;
 * beyond that the guest's kernel drops packets, and a request arrives after the sender's back-off, or after the server's own timeout (408).
 */
import { orAborted, type Abortable } from "@cocoon/core";

const mostAtOnce = 8;
/** A server may be silent for long before it answers; then the next request goes on. */
const turnMs = 3_000;

interface Lane {
  running: number;
  readonly waiting: (() => void)[];
}

export class HeldTurns {
  readonly #lanes = new Map<string, Lane>();
  readonly #turnMs: number;

  constructor(options: { readonly turnMs?: number } = {}) {
    this.#turnMs = options.turnMs ?? turnMs;
  }

  /** Resolves when it is this request's turn. Its turn ends when it is disposed, or after a while. */
  async take(key: string, options: Abortable): Promise<Disposable> {
    const lane = this.#lanes.get(key) ?? { running: 0, waiting: [] };
    this.#lanes.set(key, lane);
    if (lane.running >= mostAtOnce) await this.#awaitTurn(key, lane, options);
    else lane.running += 1;
    let over = false;
    const end = () => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      this.#pass(key, lane);
    };
    const timer = setTimeout(end, this.#turnMs);
    return { [Symbol.dispose]: end };
  }

  async #awaitTurn(key: string, lane: Lane, options: Abortable): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    lane.waiting.push(resolve);
    try {
      await orAborted(promise, options);
    } catch (error) {
      const at = lane.waiting.indexOf(resolve);
      if (at >= 0) lane.waiting.splice(at, 1);
      // Its turn came in the same moment: it belongs to the next.
      else this.#pass(key, lane);
      throw error;
    }
  }

  #pass(key: string, lane: Lane): void {
    const next = lane.waiting.shift();
    if (next) {
      next();
      return;
    }
    lane.running -= 1;
    if (lane.running === 0) this.#lanes.delete(key);
  }
}
