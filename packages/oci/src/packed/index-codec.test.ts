import assert from "node:assert/strict";
import { describe, it, test } from "node:test";
import { isFault } from "@cocoon/core";
import { count } from "@cocoon/testkit";
import fc from "fast-check";
import { readIndex, writeIndex, type IndexedChunk, type SnapshotIndex } from "./index-codec.ts";

const kib64 = 65_536;
const hex = fc
  .uint8Array({ minLength: 32, maxLength: 32 })
  .map((bytes) => Buffer.from(bytes).toString("hex"));

/** Any index that a writer could make. */
const index: fc.Arbitrary<SnapshotIndex> = fc
  .record({
    packs: fc.array(fc.record({ digest: hex, chunks: fc.array(hex, { maxLength: 12 }) }), { maxLength: 5 }),
    files: fc.array(
      fc.record({
        name: fc.stringMatching(/^[a-z][a-z0-9.-]{0,20}$/),
        picks: fc.array(fc.option(fc.nat()), { maxLength: 60 }),
        tail: fc.integer({ min: 1, max: kib64 }),
      }),
      { maxLength: 4 },
    ),
    numbers: fc.infiniteStream(fc.nat({ max: 100_000 })),
  })
  .map(({ packs, files, numbers }) => {
    const next = (limit: number): number => numbers.next().value % limit;
    const chunks: IndexedChunk[] = [];
    const distinct = [...new Map(packs.map((each) => [each.digest, each])).values()];
    const sized = distinct.map((pack, number) => {
      let offset = 0;
      for (const id of pack.chunks) {
        offset += next(3) === 0 ? next(5000) : 0;
        const roots = chunks.flatMap((each, at) => (each.base === undefined ? [at] : []));
        const base = roots.length > 0 && next(3) === 0 ? roots[next(roots.length)] : undefined;
        const raw = base === undefined && next(4) === 0;
        const length = raw ? kib64 : 1 + next(kib64);
        const place = { id, pack: number, offset, length, rawLength: kib64 };
        if (base !== undefined) chunks.push({ ...place, encoding: "delta", base });
        else chunks.push({ ...place, encoding: raw ? "raw" : "zstd" });
        offset += length;
      }
      return { digest: `sha256:${pack.digest}`, size: offset + next(100) };
    });
    const named = [...new Map(files.map((each) => [each.name, each])).values()];
    return {
      chunkBytes: kib64,
      packs: sized,
      chunks,
      files: named.map(({ name, picks, tail }) => {
        // The last chunk may be short, and then it is no full one.
        const map = Uint32Array.from(picks, (pick) =>
          pick === null || chunks.length === 0 ? 0 : 1 + (pick % chunks.length),
        );
        if (tail < kib64 && map.length > 0) map[map.length - 1] = 0;
        return { name, size: map.length === 0 ? 0 : (map.length - 1) * kib64 + tail, map };
      }),
    };
  });

describe("snapshot index", () => {
  it("comes back as it was written", () => {
    fc.assert(
      fc.property(index, (each) => assert.deepEqual(readIndex(writeIndex(each)), each)),
      { numRuns: count({ small: 300, full: 10_000 }) },
    );
  });

  it("is refused or consistent, whatever the bytes are", () => {
    fc.assert(
      fc.property(
        index,
        fc.array(fc.tuple(fc.nat(), fc.integer({ min: 1, max: 255 })), { maxLength: 4 }),
        fc.nat(),
        (each, flips, cut) => {
          const bytes = Buffer.from(writeIndex(each));
          for (const [at, mask] of flips) bytes[at % bytes.length] = (bytes[at % bytes.length] ?? 0) ^ mask;
          const damaged = cut % 3 === 0 ? bytes.subarray(0, cut % bytes.length) : bytes;
          try {
            assertConsistent(readIndex(damaged));
          } catch (error) {
            assert.ok(isFault(error, "invalid"), String(error));
          }
        },
      ),
      { numRuns: count({ small: 500, full: 20_000 }) },
    );
  });

  it("costs about 37 bytes per chunk when chunks lie in order", () => {
    const chunks = Array.from({ length: 1000 }, (_, at): IndexedChunk => ({
      id: at.toString(16).padStart(64, "0"),
      pack: 0,
      offset: at * 20_000,
      length: 20_000,
      rawLength: kib64,
      encoding: "zstd",
    }));
    const map = Uint32Array.from(chunks, (_, at) => at + 1);
    const packs = [{ digest: `sha256:${"a".repeat(64)}`, size: 20_000_000 }];
    const files = [{ name: "memory", size: 1000 * kib64, map }];
    assert.ok(writeIndex({ chunkBytes: kib64, packs, chunks, files }).length < 38_000);
  });
});

function assertConsistent({ chunks, packs, files, chunkBytes }: SnapshotIndex): void {
  for (const chunk of chunks) {
    assert.ok(chunk.offset + chunk.length <= (packs[chunk.pack]?.size ?? -1));
    assert.ok(chunk.base === undefined || chunks[chunk.base]?.encoding !== "delta");
    assert.ok(chunk.rawLength > 0 && chunk.rawLength <= chunkBytes);
  }
  for (const file of files) {
    assert.equal(file.map.length, Math.ceil(file.size / chunkBytes));
    assert.ok(file.map.every((reference) => reference <= chunks.length));
    assert.ok(!/[/\0]/.test(file.name) && file.name !== "..");
  }
}

test("golden index: the bytes of version 1", () => {
  const golden: SnapshotIndex = {
    chunkBytes: kib64,
    packs: [{ digest: `sha256:${"11".repeat(32)}`, size: 300 }],
    chunks: [
      { id: "aa".repeat(32), pack: 0, offset: 0, length: 100, rawLength: kib64, encoding: "zstd" },
      { id: "bb".repeat(32), pack: 0, offset: 150, length: 50, rawLength: kib64, encoding: "delta", base: 0 },
      { id: "cc".repeat(32), pack: 0, offset: 200, length: 5, rawLength: 5, encoding: "raw" },
    ],
    files: [
      { name: "config.json", size: 5, map: Uint32Array.of(3) },
      { name: "memory", size: 6 * kib64, map: Uint32Array.of(0, 0, 1, 2, 0, 1) },
    ],
  };
  const bytes = [
    "434f434f4f4e5831", // COCOONX1
    "808004", // chunks of 65536
    "01", // one pack
    "11".repeat(32),
    "ac0203", // 300 bytes, 3 chunks
    `${"aa".repeat(32)}010064`, // zstd, no gap, 100
    `${"bb".repeat(32)}02323200`, // delta, 50 behind the one before, 50, on chunk 0
    `${"cc".repeat(32)}80000505`, // raw and short, no gap, 5, of 5
    "02", // two files
    "0b636f6e6669672e6a736f6e05", // config.json, 5
    "0304", // one chunk: number 2 more than expected
    "066d656d6f7279808018", // memory, 393216
    "04", // two zero
    "0500", // two chunks as expected
    "02", // one zero
    "0303", // one chunk: two back
  ].join("");
  assert.equal(writeIndex(golden).toString("hex"), bytes);
  assert.deepEqual(readIndex(Buffer.from(bytes, "hex")), golden);
});
