/** One reconcile while it runs: its deadline, its signal and how long it takes. */
import { Fault, type Clock, type Logger } from "@cocoon/core";

/** The result of a reconcile. Failure is thrown; these are the expected answers. */
export type Outcome =
  | { readonly kind: "settled" }
  | { readonly kind: "requeue"; readonly afterMs: number; readonly why: string };

export const settled: Outcome = { kind: "settled" };

/** Look again after a while even when nothing changes; `why` is for the log. Zero means soon, with back-off. */
export function requeue(afterMs: number, why: string): Outcome {
  return { kind: "requeue", afterMs, why };
}

type RunResult =
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
  readonly signal: AbortSignal = this.#abort.signal;
  readonly #ended = Promise.withResolvers<void>();
  readonly ended = this.#ended.promise;
  readonly #startedAt: number;
  timedOut = false;

  constructor({ clock, maxMs, log }: RunOptions) {
    this.#clock = clock;
    this.maxMs = maxMs;
    this.log = log;
    this.#startedAt = clock.now();
  }

  get tookMs(): number {
    return this.#clock.now() - this.#startedAt;
  }

  end(): void {
    this.#ended.resolve();
  }

  abort(reason: Error): void {
    this.#abort.abort(reason);
  }

  /** Never rejects: a failure is a result. */
  async execute(reconcile: () => Promise<Outcome>): Promise<RunResult> {
    const cancel = this.#clock.schedule(this.maxMs, () => {
      this.timedOut = true;
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
