/** Decisions that share one compare-and-swap write: what waits while a batch is running is in the next one. */
import { sleep } from "@cocoon/core";

interface Waiting<Q, A> {
  readonly request: Q;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
  readonly signal: AbortSignal;
}

/** The answers, by position; undefined where it is too early to decide and the request stays in the queue. */
export type DecideBatch<Q, A> = (requests: readonly Q[]) => Promise<readonly (A | undefined)[]>;

const maxBatch = 64;
/** Pause before requests that could not be decided are decided again. */
const againMs = 40;

export class Batches<Q, A> {
  readonly #decide: DecideBatch<Q, A>;
  #queue: Waiting<Q, A>[] = [];
  #running = false;

  constructor(decide: DecideBatch<Q, A>) {
    this.#decide = decide;
  }

  /** Rejects when the signal aborts, and with whatever the decision failed with. */
  ask(request: Q, signal: AbortSignal): Promise<A> {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      this.#queue.push({ request, resolve, reject, signal });
      if (!this.#running) void this.#run();
    });
  }

  async #run(): Promise<void> {
    this.#running = true;
    // The turn ends first, so that what arrives together is decided together.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, maxBatch).filter(({ signal }) => !signal.aborted);
      if (batch.length === 0) continue;
      if (await this.#answer(batch)) await sleep(againMs, { signal: new AbortController().signal });
    }
    this.#running = false;
  }

  async #answer(batch: readonly Waiting<Q, A>[]): Promise<boolean> {
    try {
      const answers = await this.#decide(batch.map(({ request }) => request));
      const again = batch.filter((_each, index) => answers[index] === undefined);
      for (const [index, { resolve }] of batch.entries()) {
        const answer = answers[index];
        if (answer !== undefined) resolve(answer);
      }
      this.#queue.push(...again);
      return again.length > 0;
    } catch (error) {
      for (const { reject } of batch) reject(error);
      return false;
    }
  }
}
