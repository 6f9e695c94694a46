import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { annotation, legacyAnnotation } from "./keys.ts";
import {
  hasReached,
  lifecyclePatch,
  lifecycleStates,
  mayReplace,
  readGeneration,
  readHibernate,
  readKeepSnapshotOnDelete,
  readLifecycle,
  readRestoreFromHibernate,
  type LifecycleStatus,
} from "./lifecycle.ts";
import { golden } from "./testing/golden.ts";

test("patches on the wire do not change", () => {
  const samples = golden("lifecycle-patches") as { status: LifecycleStatus; patch: string }[];
  for (const { status, patch } of samples) assert.equal(JSON.stringify(lifecyclePatch(status)), patch);
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

test("what cannot be read is no report", () => {
  assert.deepEqual(readLifecycle(undefined), { state: "", observedGeneration: 0, message: "" });
  const odd = { [annotation.lifecycleState]: "Ready", [annotation.lifecycleObservedGeneration]: "latest" };
  assert.deepEqual(readLifecycle(odd), { state: "", observedGeneration: 0, message: "" });
});

test("a state counts for its generation and earlier ones", () => {
  const reached: LifecycleStatus = { state: "hibernated", observedGeneration: 5, message: "" };
  assert.equal(hasReached(reached, "hibernated", 5), true);
  assert.equal(hasReached(reached, "hibernated", 4), true);
  assert.equal(hasReached(reached, "hibernated", 6), false);
  assert.equal(hasReached(reached, "ready", 5), false);
});

test("which report may replace which", () => {
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
    assert.equal(mayReplace(published, next), may, JSON.stringify([published, next]));
});

const asleep = { [annotation.hibernate]: "true" };
const asleepByHand = { [legacyAnnotation.hibernate]: "true" };

test("the hibernate request is read from either key, the new one first", () => {
  assert.equal(readHibernate(asleep), true);
  assert.equal(readHibernate(asleepByHand), true);
  assert.equal(readHibernate({ ...asleepByHand, [annotation.hibernate]: "false" }), false);
  assert.equal(readHibernate({ [annotation.hibernate]: "yes" }), false);
  assert.equal(readHibernate(undefined), false);
});

test("the other flags follow the same rules", () => {
  assert.equal(readRestoreFromHibernate({ [annotation.restoreFromHibernate]: "true" }), true);
  assert.equal(readRestoreFromHibernate({ [annotation.restoreFromHibernate]: "TRUE" }), false);
  assert.equal(readKeepSnapshotOnDelete({ [annotation.keepSnapshotOnDelete]: "true" }), true);
});

test("a generation that cannot be read is 0", () => {
  for (const [text, generation] of [
    ["7", 7],
    ["", 0],
    ["x", 0],
    ["-1", 0],
    ["1.5", 0],
  ] as const)
    assert.equal(readGeneration({ [annotation.generation]: text }), generation, text);
});
