import assert from "node:assert/strict";
import { test } from "node:test";
import { findCondition } from "@cocoon/core/conditions";
import { withConditions, type Condition } from "./conditions.ts";
import {
  hibernationCondition,
  hibernationPhases,
  getDesiredPhase,
  readCocoonHibernation,
  restartsPhaseClock,
  type CocoonHibernation,
} from "./hibernation.ts";
import { golden } from "./testing/golden.ts";
import { hibernationCases } from "./testing/hibernation-cases.ts";

test("hibernations on the wire are read without loss", () => {
  const { current } = golden("hibernations") as { current: CocoonHibernation };
  assert.deepEqual(JSON.parse(JSON.stringify(readCocoonHibernation(current))), current);
});

test("everything that the API server stores can be read", () => {
  for (const { name, spec, refused } of hibernationCases)
    if (refused === undefined) assert.doesNotThrow(() => readCocoonHibernation({ metadata: {}, spec }), name);
  assert.throws(
    () => readCocoonHibernation({ metadata: {}, spec: { podRef: { name: "" }, desire: "Sleep" } }),
    {
      code: "invalid",
      message: /spec\.podRef\.name: .*; spec\.desire: /,
    },
  );
});

test("the condition of every phase", () => {
  const table = hibernationPhases.map((phase) => {
    const { status, reason, message } = hibernationCondition(phase, 1);
    return [phase, status, reason, message];
  });
  assert.deepEqual(table, [
    ["Pending", "False", "Pending", "Pending"],
    ["Hibernating", "False", "Pending", "Hibernating"],
    ["Hibernated", "True", "Done", "Hibernated"],
    ["Waking", "False", "Pending", "Waking"],
    ["Active", "True", "Done", "Active"],
    ["Failed", "False", "Failed", "Failed"],
  ]);
  assert.equal(hibernationCondition("Failed", 1, "no answer").message, "no answer");
});

test("the phase clock restarts when a transition begins, and only then", () => {
  assert.equal(restartsPhaseClock("Pending", "Hibernating"), true);
  assert.equal(restartsPhaseClock(undefined, "Waking"), true);
  assert.equal(restartsPhaseClock("Hibernating", "Hibernating"), false);
  assert.equal(restartsPhaseClock("Hibernating", "Failed"), false);
  assert.equal(getDesiredPhase("Hibernate"), "Hibernated");
  assert.equal(getDesiredPhase("Wake"), "Active");
});

test("times move with the status, other people's conditions stay", () => {
  const foreign: Condition = {
    type: "Backup",
    status: "True",
    reason: "Done",
    message: "",
    lastTransitionTime: "2026-01-01T00:00:00Z",
  };
  const at = (second: number) => ({ now: new Date(Date.UTC(2026, 7, 12, 9, 0, second, 700)) });
  const first = withConditions([foreign], [hibernationCondition("Pending", 1)], at(1));
  assert.equal(findCondition(first, "Ready")?.lastTransitionTime, "2026-08-12T09:00:01Z");
  const same = withConditions(first, [hibernationCondition("Waking", 2)], at(2));
  assert.equal(findCondition(same, "Ready")?.lastTransitionTime, "2026-08-12T09:00:01Z");
  assert.equal(findCondition(same, "Ready")?.observedGeneration, 2);
  const restarted = withConditions(first, [hibernationCondition("Waking", 2)], {
    ...at(3),
    restart: ["Ready"],
  });
  assert.equal(findCondition(restarted, "Ready")?.lastTransitionTime, "2026-08-12T09:00:03Z");
  const done = withConditions(same, [hibernationCondition("Active", 2)], at(4));
  assert.equal(findCondition(done, "Ready")?.lastTransitionTime, "2026-08-12T09:00:04Z");
  assert.deepEqual(findCondition(done, "Backup"), foreign);
  assert.equal(done.length, 2);
});
