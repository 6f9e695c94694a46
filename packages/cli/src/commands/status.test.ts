import assert from "node:assert/strict";
import { test } from "node:test";
import { nextStep } from "./status.ts";

test("status ends with the next step, by the worst state of a part", () => {
  const cases: readonly [
    readonly ("ready" | "not ready" | "restarting" | "crashed" | "stopped")[],
    RegExp,
  ][] = [
    [["ready", "ready"], /create a1 --image cocoon-demo/],
    [["ready", "crashed", "restarting"], /npm run up starts what is down; npm run logs -- part-1/],
    [["not ready", "restarting"], /--watch/],
    [["ready", "not ready"], /logs -- part-1/],
    [["stopped", "stopped"], /npm run up starts it/],
    [[], /get pods/],
  ];
  for (const [states, wanted] of cases)
    assert.match(nextStep(states.map((state, index) => ({ name: `part-${index}`, state }))), wanted);
});
