import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { didYouMean, editDistance, nearNames } from "./near-names.ts";

test("a distance counts letters that were changed, added, left out or swapped", () => {
  const cases: readonly [string, string, number][] = [
    ["demo", "demo", 0],
    ["dmeo", "demo", 1],
    ["dem", "demo", 1],
    ["demo1", "demo", 1],
    ["deno", "demo", 1],
    ["", "abc", 3],
  ];
  for (const [left, right, distance] of cases)
    assert.equal(editDistance(left, right), distance, `${left} ${right}`);
});

test("a distance is symmetric, and zero only for equal names", () => {
  const name = fc.string({ maxLength: 12 });
  fc.assert(
    fc.property(name, name, (left, right) => {
      assert.equal(editDistance(left, right), editDistance(right, left));
      assert.equal(editDistance(left, right) === 0, left === right);
    }),
  );
});

test("near names come nearest first, far ones not at all", () => {
  const names = ["demo", "demo-2", "production", "web"];
  assert.deepEqual(nearNames("dmeo", names), ["demo"]);
  assert.deepEqual(nearNames("prod", names), ["production"], "a beginning counts");
  assert.deepEqual(nearNames("zzz", names), []);
  assert.deepEqual(nearNames("x".repeat(10_000), names), [], "too long to be a typed name");
  assert.equal(didYouMean("dmeo", names), "; did you mean demo?");
  assert.equal(didYouMean("zzz", names), "");
});
