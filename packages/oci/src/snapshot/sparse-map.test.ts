import assert from "node:assert/strict";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { count, temporaryDirectory } from "@cocoon/testkit";
import fc from "fast-check";
import { shortened } from "./find-segments.ts";
import { readSegments, SegmentWriter } from "./segments.ts";
import { dataBytes, joinExtents, readSparseMap, writeSparseMap, type Extent } from "./sparse-map.ts";

const runs = { numRuns: count({ small: 200, full: 5000 }) };

/** Segments in order, with gaps of any size, and the size of their file. */
const layout = (largest: number): fc.Arbitrary<{ extents: Extent[]; size: number }> =>
  fc
    .tuple(
      fc.array(fc.tuple(fc.nat({ max: largest }), fc.integer({ min: 1, max: largest })), { maxLength: 30 }),
      fc.nat({ max: largest }),
    )
    .map(([pairs, tail]) => {
      let at = 0;
      const extents = pairs.map(([gap, length]) => {
        const offset = at + gap;
        at = offset + length;
        return { offset, length };
      });
      return { extents, size: at + tail };
    });

describe("sparse maps", () => {
  it("come back as they were written", () => {
    fc.assert(
      fc.property(layout(2 ** 40), ({ extents, size }) => {
        assert.deepEqual(readSparseMap(writeSparseMap(extents), size), extents);
      }),
      runs,
    );
  });

  it("golden text", () => {
    const text = '[{"o":0,"l":4096},{"o":1048576,"l":65536}]';
    assert.deepEqual(readSparseMap(text, 2 ** 21), [
      { offset: 0, length: 4096 },
      { offset: 1_048_576, length: 65_536 },
    ]);
    assert.equal(writeSparseMap(readSparseMap(text, 2 ** 21)), text);
  });

  for (const text of [
    "",
    "null",
    "{}",
    '[{"o":0}]',
    '[{"o":-1,"l":1}]',
    '[{"o":0,"l":1.5}]',
    '[{"o":0,"l":101}]',
    '[{"o":50,"l":10},{"o":0,"l":10}]',
    '[{"o":0,"l":10},{"o":5,"l":10}]',
    '[{"o":9007199254740991,"l":9007199254740991}]',
  ])
    it(`${text || "nothing"} is refused`, () => {
      assert.throws(
        () => readSparseMap(text, 100),
        (error) => isFault(error, "invalid"),
      );
    });

  it("shortening only ever adds bytes, and keeps to the limit", () => {
    fc.assert(
      fc.property(layout(300_000), ({ extents, size }) => {
        const short = shortened(extents, size);
        assert.ok(short.length <= Math.max(1, joinExtents(extents).length));
        for (const { offset, length } of extents)
          assert.ok(
            short.some((each) => each.offset <= offset && each.offset + each.length >= offset + length),
          );
        for (const [at, each] of short.entries()) {
          const next = short[at + 1];
          assert.ok(!next || next.offset - (each.offset + each.length) >= 65_536);
          assert.ok(each.offset + each.length <= size);
        }
      }),
      runs,
    );
    const many = Array.from({ length: 100_000 }, (_, at) => ({ offset: at * 200_000, length: 4096 }));
    assert.ok(writeSparseMap(shortened(many, 100_000 * 200_000)).length <= 900 * 1024);
  });
});

describe("segments of a file", () => {
  it("any sparse file is taken apart and put together again, from any offset and in any pieces", async () => {
    await using directory = await temporaryDirectory();
    let number = 0;
    await fc.assert(
      fc.asyncProperty(
        layout(20_000),
        fc.infiniteStream(fc.integer({ min: 1, max: 9000 })),
        fc.nat(),
        async ({ extents, size }, pieces, from) => {
          number += 1;
          const content = Buffer.alloc(size);
          for (const { offset, length } of extents)
            content.fill(`${offset}:`, offset, offset + (length % 3 === 0 ? 1 : length));
          await using source = await open(join(directory.path, `s${number}`), "w+");
          await source.writeFile(content);
          const body = Buffer.concat(await Array.fromAsync(readSegments(source.fd, extents)));
          assert.equal(body.length, dataBytes(extents));
          const offset = body.length === 0 ? 0 : from % body.length;
          const rest = Buffer.concat(await Array.fromAsync(readSegments(source.fd, extents, offset)));
          assert.ok(rest.equals(body.subarray(offset)));

          await using target = await open(join(directory.path, `t${number}`), "w+");
          await target.truncate(size);
          const writer = new SegmentWriter(target.fd, extents);
          for (let at = 0; at < body.length;) {
            const length = Number(pieces.next().value);
            await writer.take(body.subarray(at, at + length));
            at += length;
          }
          writer.finish();
          assert.ok((await target.readFile()).equals(content));
        },
      ),
      { numRuns: count({ small: 60, full: 1000 }) },
    );
  });

  it("too much and too little is refused", async () => {
    await using directory = await temporaryDirectory();
    await using target = await open(join(directory.path, "t"), "w+");
    const writer = new SegmentWriter(target.fd, [{ offset: 5, length: 10 }]);
    await writer.take(Buffer.alloc(9, 1));
    assert.throws(
      () => writer.finish(),
      (error) => isFault(error, "invalid"),
    );
    await assert.rejects(writer.take(Buffer.alloc(2, 1)), (error) => isFault(error, "invalid"));
  });
});
