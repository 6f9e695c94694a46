import assert from "node:assert/strict";
import { test } from "node:test";
import { findCondition, isConditionTrue, mergeConditions } from "./conditions.ts";

const first = new Date("2026-01-01T00:00:00.123Z");
const later = new Date("2026-01-01T01:00:00Z");
const early = "2026-01-01T00:00:00Z";
const late = "2026-01-01T01:00:00Z";

test("the time moves with the status only, and other writers' conditions stay where they are", () => {
  const foreign = {
    type: "Backup",
    status: "True",
    lastTransitionTime: "2020-01-01T00:00:00Z",
    note: "kept",
  };
  const start = mergeConditions([foreign], [{ type: "Ready", status: "False", reason: "New" }], {
    now: first,
  });
  assert.deepEqual(start, [
    foreign,
    { type: "Ready", status: "False", reason: "New", lastTransitionTime: early },
  ]);
  const same = mergeConditions(start, [{ type: "Ready", status: "False", reason: "Old" }], { now: later });
  assert.deepEqual(findCondition(same, "Ready"), {
    type: "Ready",
    status: "False",
    reason: "Old",
    lastTransitionTime: early,
  });
  const changed = mergeConditions(same, [{ type: "Ready", status: "True", reason: "Up" }], { now: later });
  assert.equal(findCondition(changed, "Ready")?.lastTransitionTime, late);
  assert.ok(isConditionTrue(changed, "Ready") && changed[0] === foreign);
});

test("a type may start its time anew, and a condition without a time gets one", () => {
  const timeless: { type: string; status: string; lastTransitionTime?: string }[] = [
    { type: "Ready", status: "True" },
  ];
  const merged = mergeConditions(timeless, [{ type: "Ready", status: "True" }], { now: first });
  assert.equal(merged[0]?.lastTransitionTime, early);
  const again = mergeConditions(merged, [{ type: "Ready", status: "True" }], {
    now: later,
    restart: ["Ready"],
  });
  assert.equal(again[0]?.lastTransitionTime, late);
});
