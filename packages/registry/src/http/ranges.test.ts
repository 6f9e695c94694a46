import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { readRange, tryChunkRange } from "./ranges.ts";

describe("byte ranges", () => {
  it("lie inside of the content, whatever is requested", () => {
    const number = fc.oneof(fc.constant(""), fc.nat(2_000).map(String));
    fc.assert(
      fc.property(number, number, fc.nat(1_000), (first, last, size) => {
        const answer = readRange(`bytes=${first}-${last}`, size);
        if (answer.kind !== "part") return;
        assert.ok(
          answer.range.start >= 0 && answer.range.start <= answer.range.end && answer.range.end < size,
        );
      }),
    );
  });

  it("are not satisfiable when they start behind the end, end before the start or ask for nothing", () => {
    for (const [header, size] of [
      ["bytes=10-", 10],
      ["bytes=5-4", 10],
      ["bytes=-0", 10],
      ["bytes=0-0", 0],
      ["bytes=-5", 0],
    ] as const)
      assert.deepEqual(readRange(header, size), { kind: "unsatisfiable" }, header);
  });

  it("of chunks are start-end, with or without unit and total", () => {
    assert.deepEqual(tryChunkRange("0-9"), { start: 0, end: 9 });
    assert.deepEqual(tryChunkRange("bytes 5-9/10"), { start: 5, end: 9 });
    assert.deepEqual(tryChunkRange("5-5/*"), { start: 5, end: 5 });
    for (const text of ["", "9-0", "a-b", "5-", "-5", "0-9,10-11", "0-99999999999999999999"])
      assert.equal(tryChunkRange(text), undefined, text);
  });
});
