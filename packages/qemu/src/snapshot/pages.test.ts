import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { appendRuns, parseMaps, subtractRuns, totalBytes, type MemoryRange } from "./pages.ts";

const page = 4096;

/** Page map entries with these upper bits: 63 present, 62 swapped, 61 of a file. */
function entries(kinds: readonly ("private" | "file" | "swapped" | "absent")[]): Buffer {
  const bits = { private: 0b100, file: 0b101, swapped: 0b010, absent: 0b000 } as const;
  const buffer = Buffer.alloc(kinds.length * 8);
  for (const [index, kind] of kinds.entries()) buffer.writeUInt32LE((bits[kind] << 29) >>> 0, index * 8 + 4);
  return buffer;
}

test("private and swapped pages are saved, the file's and untouched ones are not", () => {
  const runs: MemoryRange[] = [];
  const piece = { address: 0x7f0000000000, offset: 0x10000, length: 6 * page };
  appendRuns(entries(["file", "private", "swapped", "absent", "private", "file"]), piece, runs);
  assert.deepEqual(runs, [
    { address: piece.address + page, offset: piece.offset + page, length: 2 * page },
    { address: piece.address + 4 * page, offset: piece.offset + 4 * page, length: page },
  ]);
});

test("runs that touch across two reads become one", () => {
  const runs: MemoryRange[] = [];
  appendRuns(entries(["absent", "private"]), { address: 0, offset: 0, length: 2 * page }, runs);
  appendRuns(entries(["private", "file"]), { address: 2 * page, offset: 2 * page, length: 2 * page }, runs);
  assert.deepEqual(runs, [{ address: page, offset: page, length: 2 * page }]);
});

test("the runs cover exactly the private pages, in order, without touching each other", () => {
  const kind = fc.constantFrom("private", "file", "swapped", "absent");
  fc.assert(
    fc.property(fc.array(kind, { maxLength: 200 }), (kinds) => {
      const runs: MemoryRange[] = [];
      appendRuns(entries(kinds), { address: 0, offset: 0, length: kinds.length * page }, runs);
      const covered = new Set(
        runs.flatMap((run) =>
          Array.from({ length: run.length / page }, (_each, index) => run.offset / page + index),
        ),
      );
      const wanted = kinds.flatMap((each, index) =>
        each === "private" || each === "swapped" ? [index] : [],
      );
      assert.deepEqual([...covered], wanted);
      assert.equal(totalBytes(runs), wanted.length * page);
      for (const [index, run] of runs.entries()) {
        const next = runs[index + 1];
        if (next) assert.ok(run.offset + run.length < next.offset);
      }
    }),
  );
});

/** Runs of the pages that are set, as the page map gives them. */
function runsFrom(pages: readonly boolean[]): MemoryRange[] {
  const runs: MemoryRange[] = [];
  const kinds = pages.map((isOwn) => (isOwn ? "private" : "file"));
  appendRuns(entries(kinds), { address: 0x7f0000000000, offset: 0, length: kinds.length * page }, runs);
  return runs;
}

test("pages that were the process's own and are not any more are found", () => {
  const pages = fc.array(fc.tuple(fc.boolean(), fc.boolean()), { maxLength: 60 });
  fc.assert(
    fc.property(pages, (each) => {
      const [before, now] = [each.map(([was]) => was), each.map(([, is]) => is)];
      const found = subtractRuns(runsFrom(before), runsFrom(now)).flatMap((run) =>
        Array.from({ length: run.length / page }, (_page, index) => {
          assert.equal(run.address - run.offset, 0x7f0000000000);
          return run.offset / page + index;
        }),
      );
      assert.deepEqual(
        found,
        each.flatMap(([was, is], index) => (was && !is ? [index] : [])),
      );
    }),
  );
});

test("the guest's memory is found by its inode among the mappings", () => {
  const maps = [
    "55d0c0000000-55d0c1000000 r-xp 00000000 fe:00 1234 /usr/bin/qemu-system-x86_64",
    "7f2a00000000-7f2a10000000 rw-p 00000000 fe:00 77 /root/vms/X/files-1/memory-ranges",
    "7f2b00000000-7f2b00001000 rw-s 00000000 fe:00 77 /root/vms/X/files-1/memory-ranges",
    "7f2c00000000-7f2c00002000 rw-p 00003000 fe:00 77 /root/vms/X/files-1/memory-ranges (deleted)",
    "7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]",
  ].join("\n");
  assert.deepEqual(parseMaps(maps, 77), [
    { address: 0x7f2a00000000, offset: 0, length: 0x10000000 },
    { address: 0x7f2c00000000, offset: 0x3000, length: 0x2000 },
  ]);
});
