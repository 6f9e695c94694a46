/** A table of (observed -> actions), one test per row. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { planSet } from "../cocoonset/plan.ts";
import { lines, buildObserved, type ObservedInput } from "./fixtures.ts";

export interface Row extends ObservedInput {
  readonly row: string;
  readonly does: readonly string[];
  readonly phase?: string;
  readonly lookups?: readonly string[];
  /** Reasons, in order. */
  readonly problem?: string;
}

export function table(name: string, rows: readonly Row[]): void {
  suite(name, () => {
    for (const { row, does, phase, lookups, problem, ...input } of rows)
      test(row, () => {
        const plan = planSet(buildObserved(input));
        assert.deepEqual(
          plan.lookups.map((each) => each.replace("vk-lab-", "")),
          lookups ?? [],
          "questions",
        );
        if (lookups === undefined) assert.deepEqual(lines(plan), does);
        if (phase !== undefined) assert.equal(plan.phase, phase);
        assert.deepEqual([...new Set(plan.problems.map(({ reason }) => reason))], problem?.split(", ") ?? []);
      });
  });
}
