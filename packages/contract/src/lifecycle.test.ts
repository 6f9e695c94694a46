import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { annotation } from "./keys.ts";
import {
  hasReached,
  isSettled,
  lifecycleKey,
  lifecyclePatch,
  lifecycleStates,
  mayReplace,
  readLifecycle,
  type LifecycleStatus,
} from "./lifecycle.ts";
import { golden } from "./testing/golden.ts";

test("patches and keys on the wire are as ever", () => {
  const samples = golden("lifecycle-patches") as { status: LifecycleStatus; key: string; patch: string }[];
  for (const { status, key, patch } of samples) {
    assert.equal(JSON.stringify(lifecyclePatch(status)), patch);
    assert.equal(lifecycleKey(status), key);
  }
});

const status: fc.Arbitrary<LifecycleStatus> = fc.record(
  { state: fc.constantFrom(...lifecycleStates), observedGeneration: fc.nat(), message: fc.string() },
  { noNullPrototype: true },
);

test("a patch over any earlier report leaves exactly the new one", () => {
  fc.assert(
    fc.property(status, status, (before, after) => {
      const annotations = {
        ...lifecyclePatch(before).metadata.annotations,
        ...lifecyclePatch(after).metadata.annotations,
      };
      const stored = Object.fromEntries(
        Object.entries(annotations).flatMap(([key, value]) => (value === null ? [] : [[key, value]])),
      );
      assert.deepEqual(readLifecycle(stored), after);
    }),
  );
});

test("equal keys mean equal reports", () => {
  fc.assert(
    fc.property(status, status, (left, right) => {
      assert.equal(
        lifecycleKey(left) === lifecycleKey(right),
        JSON.stringify(left) === JSON.stringify(right),
      );
    }),
  );
});

test("what cannot be read is no report", () => {
  assert.deepEqual(readLifecycle(undefined), { state: "", observedGeneration: 0, message: "" });
  const odd = { [annotation.lifecycleState]: "Ready", [annotation.lifecycleObservedGeneration]: "latest" };
  assert.deepEqual(readLifecycle(odd), { state: "", observedGeneration: 0, message: "" });
});

test("a client may stop waiting in ready, hibernated and failed only", () => {
  assert.deepEqual(
    ["", ...lifecycleStates].filter((state) => isSettled(state as LifecycleStatus["state"])),
    ["ready", "hibernated", "failed"],
  );
});

test("a state counts for its generation and earlier ones", () => {
  const reached: LifecycleStatus = { state: "hibernated", observedGeneration: 5, message: "" };
  assert.equal(hasReached(reached, "hibernated", 5), true);
  assert.equal(hasReached(reached, "hibernated", 4), true);
  assert.equal(hasReached(reached, "hibernated", 6), false);
  assert.equal(hasReached(reached, "ready", 5), false);
});

test("who may replace whom", () => {
  const at = (state: LifecycleStatus["state"], observedGeneration: number) => ({
    state,
    observedGeneration,
    message: "",
  });
  const table: readonly (readonly [LifecycleStatus, LifecycleStatus, boolean])[] = [
    [at("ready", 3), at("hibernating", 2), false],
    [at("failed", 3), at("ready", 4), true],
    [at("hibernated", 3), at("hibernated", 4), true],
    [at("failed", 3), at("creating", 3), true],
    [at("failed", 3), at("hibernating", 3), true],
    [at("failed", 3), at("failed", 3), true],
    [at("failed", 3), at("ready", 3), false],
    [at("failed", 3), at("hibernated", 3), false],
    [at("creating", 3), at("ready", 3), true],
    [at("ready", 3), at("failed", 3), true],
    [at("", 0), at("creating", 0), true],
  ];
  for (const [published, next, may] of table)
    assert.equal(mayReplace(published, next), may, `${lifecycleKey(published)} -> ${lifecycleKey(next)}`);
});
