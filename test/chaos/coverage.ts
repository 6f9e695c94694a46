/** What a history has not had yet, or not for long, is chosen sooner: an hour has every kind of operation and disaster. */
import type { Weighted } from "./random-choice.ts";
import type { Operation, Step } from "./steps.ts";

/** Steps in which each disaster occurs at least once. */
const overdueSteps: ReadonlyMap<string, number> = new Map([
  ["etcdRestore", 15],
  ["nodeLost", 25],
]);
/** How much more often an operation is chosen before its first time: more with every step. */
const newFactorPerStep = 0.5;

export class Coverage {
  readonly #lastStep = new Map<string, number>();
  #steps = 0;

  record({ operations, faults }: Step): void {
    this.#steps += 1;
    for (const { kind } of [...operations, ...faults]) this.#lastStep.set(kind, this.#steps);
  }

  isOverdue(kind: string): boolean {
    const limit = overdueSteps.get(kind);
    return limit !== undefined && this.#steps - (this.#lastStep.get(kind) ?? 0) >= limit;
  }

  prefer(choices: readonly Weighted<Operation>[]): Weighted<Operation>[] {
    const newFactor = 4 + this.#steps * newFactorPerStep;
    return choices.map(({ weight, value }) => ({
      weight: this.#lastStep.has(value.kind) ? weight : weight * newFactor,
      value,
    }));
  }
}
