import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { matchesPattern } from "./pattern.ts";

test("a pattern matches like the regular expression it stands for", () => {
  const text = fc.string({ unit: fc.constantFrom("a", "b", "/", "-") });
  const pattern = fc.string({ unit: fc.constantFrom("a", "b", "/", "*", "-") });
  fc.assert(
    fc.property(pattern, text, (pattern, text) => {
      const expected = new RegExp(`^${pattern.replaceAll("*", ".*")}$`).test(text);
      assert.equal(matchesPattern(pattern, text), expected);
    }),
    { numRuns: 2_000 },
  );
});
