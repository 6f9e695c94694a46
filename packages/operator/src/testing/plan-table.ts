/** A table of (world -> actions), one test per row. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { planSet } from "../cocoonset/plan.ts";
import { lines, worldOf, type WorldInput } from "./fixtures.ts";

export interface Row extends WorldInput {
  readonly row: string;
  readonly does: readonly string[];
  readonly phase?: string;
  readonly asks?: readonly string[];
  readonly trouble?: string;
}

export function table(name: string, rows: readonly Row[]): void {
  suite(name, () => {
    for (const { row, does, phase, asks, trouble, ...input } of rows)
      test(row, () => {
        const plan = planSet(worldOf(input));
        assert.deepEqual(
          plan.asks.map((each) => each.replace("vk-lab-", "")),
          asks ?? [],
          "questions",
        );
        if (asks === undefined) assert.deepEqual(lines(plan), does);
        if (phase !== undefined) assert.equal(plan.phase, phase);
        assert.deepEqual([...new Set(plan.troubles.map(({ reason }) => reason))], trouble ? [trouble] : []);
      });
  });
}
