import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { maxWorkingSetEntries, tryReadWorkingSet, writeWorkingSet } from "./working-set.ts";

const entry = fc
  .tuple(fc.constantFrom("memory-ranges", "root-0.qcow2", "root-1.qcow2"), fc.nat())
  .map(([file, position]) => ({ file, position }));

test("a working set is read in the order in which it was written", () => {
  fc.assert(
    fc.property(fc.array(entry, { maxLength: 200 }), (entries) => {
      for (const set of [
        { chunkBytes: 65_536, entries },
        { chunkBytes: 65_536, entries, untilAnswer: 3 },
      ])
        assert.deepEqual(tryReadWorkingSet(writeWorkingSet(set)), set);
    }),
  );
});

test("any text is a working set or none", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.json()), (text) => {
      tryReadWorkingSet(text);
    }),
  );
});

test("what is too large is cut when it is written and refused when it is read", () => {
  const entries = Array.from({ length: maxWorkingSetEntries + 5 }, (_each, position) => ({
    file: "a",
    position,
  }));
  const text = writeWorkingSet({ chunkBytes: 4096, entries });
  assert.equal(tryReadWorkingSet(text)?.entries.length, maxWorkingSetEntries);
  const order = entries.map(({ position }) => [0, position]);
  assert.equal(
    tryReadWorkingSet(JSON.stringify({ version: 1, chunkBytes: 4096, files: ["a"], order })),
    undefined,
  );
});
