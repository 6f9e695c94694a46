import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { testSeed } from "@cocoon/testkit";
import { LineSplitter } from "./watch-frames.ts";

/** The text in UTF-8, cut into chunks at the given places. */
function splitChunks(text: string, cuts: readonly number[]): Buffer[] {
  const bytes = Buffer.from(text);
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].toSorted((a, b) => a - b);
  const chunks: Buffer[] = [];
  let from = 0;
  for (const place of [...places, bytes.length]) {
    chunks.push(bytes.subarray(from, place));
    from = place;
  }
  return chunks;
}

test("lines come out as they went in, wherever the stream is cut", () => {
  const line = fc.string({ unit: "grapheme" }).map((text) => text.replaceAll("\n", " "));
  fc.assert(
    fc.property(fc.array(line), line, fc.array(fc.nat(10_000)), (lines, rest, cuts) => {
      const splitter = new LineSplitter(1_000_000);
      const text = lines.map((each) => `${each}\n`).join("") + rest;
      const found = splitChunks(text, cuts).flatMap((chunk) => splitter.push(chunk));
      assert.deepEqual(
        found,
        lines.map((each) => Buffer.from(each).toString()),
      );
    }),
    { seed: testSeed() },
  );
});

test("exactly the lines that are too long are left out", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(40)), fc.array(fc.nat(10_000)), (lengths, cuts) => {
      const splitter = new LineSplitter(20);
      const lines = lengths.map((length) => "x".repeat(length));
      const found = splitChunks(lines.map((each) => `${each}\n`).join(""), cuts).flatMap((chunk) =>
        splitter.push(chunk),
      );
      assert.deepEqual(
        found,
        lines.map((each) => (each.length > 20 ? undefined : each)),
      );
    }),
    { seed: testSeed() },
  );
});
