/** Decisions that share one compare-and-swap write: whoever waits while a batch is under way is in the next one. */
import { sleep } from "@cocoon/core";

interface Waiting<Q, A> {
  readonly question: Q;
  readonly resolve: (answer: A) => void;
  readonly reject: (error: unknown) => void;
  readonly signal: AbortSignal;
}

/** The answers, by position; undefined where it is too early to tell and the question should be asked again. */
export type DecideBatch<Q, A> = (questions: readonly Q[]) => Promise<readonly (A | undefined)[]>;

export interface BatchOptions {
  readonly maxBatch?: number;
  /** Pause before questions that had no answer are asked again. */
  readonly againMs?: number;
}

export class Batches<Q, A> {
  readonly #decide: DecideBatch<Q, A>;
  readonly #maxBatch: number;
  readonly #againMs: number;
  #queue: Waiting<Q, A>[] = [];
  #running = false;

  constructor(decide: DecideBatch<Q, A>, { maxBatch = 64, againMs = 40 }: BatchOptions = {}) {
    this.#decide = decide;
    this.#maxBatch = maxBatch;
    this.#againMs = againMs;
  }

  /** Rejects when the signal aborts, and with whatever the decision failed with. */
  ask(question: Q, signal: AbortSignal): Promise<A> {
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
      this.#queue.push({ question, resolve, reject, signal });
      if (!this.#running) void this.#run();
    });
  }

  get idle(): boolean {
    return !this.#running;
  }

  async #run(): Promise<void> {
    this.#running = true;
    // The turn ends first, so that what arrives together is decided together.
    await Promise.resolve();
    while (this.#queue.length > 0) {
      const batch = this.#queue.splice(0, this.#maxBatch).filter(({ signal }) => !signal.aborted);
      if (batch.length === 0) continue;
      if (await this.#answer(batch)) await sleep(this.#againMs, { signal: new AbortController().signal });
    }
    this.#running = false;
  }

  /** True when somebody has to ask again. */
  async #answer(batch: readonly Waiting<Q, A>[]): Promise<boolean> {
    try {
      const answers = await this.#decide(batch.map(({ question }) => question));
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
