/** One reconcile while it runs: its deadline, its signal and how long it takes. */
import { Fault, type Logger } from "@cocoon/core";
import type { Clock } from "./clock.ts";
import type { Outcome } from "./outcome.ts";

export type RunResult =
  | { readonly kind: "done"; readonly outcome: Outcome }
  | { readonly kind: "failed"; readonly error: unknown };

export interface RunOptions {
  readonly clock: Clock;
  readonly maxMs: number;
  readonly log: Logger;
}

export class ReconcileRun {
  readonly log: Logger;
  readonly maxMs: number;
  readonly #clock: Clock;
  readonly #abort = new AbortController();
  readonly #ended = Promise.withResolvers<void>();
  readonly #startedAt: number;
  #timedOut = false;

  constructor({ clock, maxMs, log }: RunOptions) {
    this.#clock = clock;
    this.maxMs = maxMs;
    this.log = log;
    this.#startedAt = clock.now();
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** The deadline passed before the reconcile ended. */
  get timedOut(): boolean {
    return this.#timedOut;
  }

  get tookMs(): number {
    return this.#clock.now() - this.#startedAt;
  }

  /** Resolves when the reconcile is over and its result taken in, however it ended. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** To be called when the result has been taken in. */
  end(): void {
    this.#ended.resolve();
  }

  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  /** Never rejects: a failure is a result. */
  async execute(reconcile: () => Promise<Outcome>): Promise<RunResult> {
    const cancel = this.#clock.schedule(this.maxMs, () => {
      this.#timedOut = true;
      this.log.warn({ maxMs: this.maxMs }, "reconcile takes too long and is aborted");
      this.abort(new Fault("timeout", `reconcile took longer than ${this.maxMs} ms`));
    });
    try {
      return { kind: "done", outcome: await reconcile() };
    } catch (error) {
      return { kind: "failed", error };
    } finally {
      cancel();
    }
  }
}
