import assert from "node:assert/strict";
import { test } from "node:test";
import { count, testSeed } from "@cocoon/testkit";
import fc from "fast-check";
import { nestsDeeperThan } from "./json-depth.ts";

const runs = { numRuns: count({ small: 300, full: 3000 }), seed: testSeed() };

function computeDepth(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(computeDepth));
}

test("depth is that of the parsed value, whatever its strings hold", () => {
  const tricky = fc.stringMatching(/^[\\"{}[\]a]*$/);
  const value = fc.jsonValue({ maxDepth: 6, stringUnit: tricky });
  fc.assert(
    fc.property(value, fc.integer({ min: 0, max: 8 }), (json, limit) => {
      assert.equal(nestsDeeperThan(Buffer.from(JSON.stringify(json)), limit), computeDepth(json) > limit);
    }),
    runs,
  );
});

test("a well of brackets is found, and broken strings end the look", () => {
  assert.equal(nestsDeeperThan(Buffer.from("[".repeat(1_000_000)), 256), true);
  assert.equal(nestsDeeperThan(Buffer.from('{"a":'.repeat(257)), 256), true);
  assert.equal(nestsDeeperThan(Buffer.from(`"${"[".repeat(1000)}`), 10), false);
  assert.equal(nestsDeeperThan(Buffer.from('"\\'), 10), false);
});
