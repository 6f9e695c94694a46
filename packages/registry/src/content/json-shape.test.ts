import assert from "node:assert/strict";
import { test } from "node:test";
import * as fc from "fast-check";
import { findExcess } from "./json-shape.ts";

function measure(value: unknown): { depth: number; commas: number } {
  if (typeof value !== "object" || value === null) return { depth: 0, commas: 0 };
  const parts = Object.values(value).map(measure);
  return {
    depth: 1 + Math.max(0, ...parts.map(({ depth }) => depth)),
    commas: Math.max(0, parts.length - 1) + parts.reduce((total, { commas }) => total + commas, 0),
  };
}

test("depth and number of values of any JSON are seen without parsing it", () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const { depth, commas } = measure(value);
      const bytes = Buffer.from(JSON.stringify(value));
      assert.equal(findExcess(bytes, { maxDepth: depth, maxValues: commas }), undefined);
      if (depth > 0)
        assert.match(findExcess(bytes, { maxDepth: depth - 1, maxValues: commas }) ?? "", /nested/);
      if (commas > 0)
        assert.match(findExcess(bytes, { maxDepth: depth, maxValues: commas - 1 }) ?? "", /holds/);
    }),
  );
});

test("text that is no JSON ends the check", () => {
  fc.assert(fc.property(fc.uint8Array(), (bytes) => void findExcess(bytes, { maxDepth: 3, maxValues: 3 })));
});
