import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { formatDuration, parseDuration, tryParseDuration } from "./go-duration.ts";

test("reads what Go reads and nothing else", () => {
  const table: readonly (readonly [string, number | undefined])[] = [
    ["0", 0],
    ["1h30m", 5_400_000],
    ["1.5s", 1_500],
    ["1.001s", 1_001],
    [".5s", 500],
    ["-250ms", -250],
    ["+2m", 120_000],
    ["1h 30m", undefined],
    ["15", undefined],
    ["", undefined],
    ["s", undefined],
    ["1d", undefined],
  ];
  for (const [text, ms] of table) assert.equal(tryParseDuration(text), ms, text);
});

test("what is formatted reads back as the same time", () => {
  fc.assert(
    fc.property(fc.integer({ min: -1e12, max: 1e12 }), (ms) => {
      assert.equal(parseDuration(formatDuration(ms)), ms);
    }),
  );
});

test("formats like Go", () => {
  assert.equal(formatDuration(5_400_000), "1h30m0s");
  assert.equal(formatDuration(1_500), "1.5s");
  assert.equal(formatDuration(250), "250ms");
});
