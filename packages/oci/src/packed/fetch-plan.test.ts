import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { planFetch } from "./fetch-plan.ts";
import type { IndexedChunk } from "./index-codec.ts";

const chunkAt = (pack: number, offset: number, length: number): IndexedChunk => ({
  id: `${pack}-${offset}`,
  pack,
  offset,
  length,
  rawLength: length,
  encoding: "raw",
});
const mib = 1024 * 1024;
const packs = [0, 1].map((number) => ({ digest: `sha256:${number}`, size: 8 * mib }));

test("a pack that is mostly needed is taken whole", () => {
  const needed = Array.from({ length: 100 }, (_, at) => chunkAt(0, at * 64_000, 64_000));
  assert.deepEqual(
    planFetch(packs, needed).map((each) => each.stretches),
    [undefined],
  );
});

test("a few chunks are taken alone, near ones together", () => {
  const needed = [
    chunkAt(1, 100_000, 1000),
    chunkAt(1, 101_000, 1000),
    chunkAt(1, 300_000, 1000),
    chunkAt(1, 5 * mib, 10),
  ];
  assert.deepEqual(planFetch(packs, needed)[0]?.stretches, [
    { offset: 100_000, length: 201_000 },
    { offset: 5 * mib, length: 10 },
  ]);
});

test("whatever is needed is covered once, in bounds", () => {
  const chunk = fc
    .tuple(fc.nat({ max: 1 }), fc.nat({ max: 127 }))
    .map(([pack, at]) => chunkAt(pack, at * 65_536, 60_000));
  fc.assert(
    fc.property(fc.uniqueArray(chunk, { selector: (each) => each.id }), (needed) => {
      const plan = planFetch(packs, needed);
      assert.deepEqual(new Set(plan.flatMap((each) => each.chunks)), new Set(needed));
      for (const { pack, chunks, stretches = [{ offset: 0, length: pack.size }] } of plan) {
        for (const { offset, length } of chunks)
          assert.ok(
            stretches.some((each) => each.offset <= offset && each.offset + each.length >= offset + length),
          );
        let end = 0;
        for (const each of stretches) {
          assert.ok(each.offset >= end);
          end = each.offset + each.length;
        }
        assert.ok(end <= pack.size);
      }
    }),
  );
});
