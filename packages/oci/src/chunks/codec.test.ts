import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { test } from "node:test";
import { count } from "@cocoon/testkit";
import fc from "fast-check";
import { chunkId, CorruptChunk, decodeChunk, encodeChunk, isZero, type EncodedChunk } from "./codec.ts";

const content = fc.oneof(
  fc.uint8Array({ minLength: 1, maxLength: 5000 }),
  fc
    .tuple(fc.uint8Array({ minLength: 1, maxLength: 50 }), fc.integer({ min: 1, max: 200 }))
    .map(([piece, times]) => Uint8Array.from(Buffer.concat(Array.from({ length: times }, () => piece)))),
);
const runs = { numRuns: count({ small: 200, full: 5000 }) };

function encoded(chunk: Uint8Array, base?: Uint8Array): EncodedChunk {
  const { encoding, bytes } = encodeChunk(chunk, base ? { level: 1, base } : { level: 1 });
  const common = { encoding, bytes, rawLength: chunk.length, id: chunkId(chunk) };
  return encoding === "delta" && base ? { ...common, base } : common;
}

test("any chunk comes back, alone and against any base", () => {
  fc.assert(
    fc.property(content, fc.option(content), (chunk, base) => {
      assert.deepEqual(Buffer.from(decodeChunk(encoded(chunk, base ?? undefined))), Buffer.from(chunk));
    }),
    runs,
  );
});

test("a page that changes in a chunk without structure costs about that page", () => {
  const before = randomBytes(65_536);
  const after = Buffer.from(before);
  randomBytes(4096).copy(after, 20_480);
  const { encoding, bytes } = encodeChunk(after, { level: 1, base: before });
  assert.equal(encoding, "delta");
  assert.ok(bytes.length < 4096 + 300, `${bytes.length} bytes`);
});

test("a base that has nothing in common is not used", () => {
  assert.notEqual(
    encodeChunk(randomBytes(65_536), { level: 1, base: randomBytes(65_536) }).encoding,
    "delta",
  );
});

test("a base that looks like a trained dictionary is not used as one", () => {
  const base = Buffer.concat([Buffer.from([0x37, 0xa4, 0x30, 0xec]), randomBytes(65_532)]);
  const after = Buffer.from(base);
  after[40_000] = (after[40_000] ?? 0) ^ 1;
  assert.notEqual(encodeChunk(after, { level: 1, base }).encoding, "delta");
});

test("every single flipped bit is found, in the chunk, in its base, in its lengths", () => {
  const before = Buffer.from("some text that was here before. ".repeat(64));
  const after = Buffer.from(before);
  after.write("and now it is another", 500);
  for (const chunk of [encoded(after, before), encoded(after), encoded(randomBytes(300))]) {
    for (let bit = 0; bit < chunk.bytes.length * 8; bit += 1) {
      const damaged = flipped(chunk.bytes, bit);
      assert.throws(
        () => use({ ...chunk, bytes: damaged }, after),
        CorruptChunk,
        `${chunk.encoding} bit ${bit}`,
      );
    }
    // A dictionary is used in part; where it is not, the content is right all the same.
    const { base = Buffer.alloc(0) } = chunk;
    for (let bit = 0; bit < base.length * 8; bit += 7)
      assertRightOrCorrupt({ ...chunk, base: flipped(base, bit) }, after);
    assert.throws(() => decodeChunk({ ...chunk, rawLength: chunk.rawLength + 1 }), CorruptChunk);
    assert.throws(() => decodeChunk({ ...chunk, rawLength: chunk.rawLength - 1 }), CorruptChunk);
    assert.throws(() => decodeChunk({ ...chunk, bytes: chunk.bytes.subarray(1) }), CorruptChunk);
  }
  assert.throws(() => decodeChunk({ ...encoded(after), encoding: "delta" }), CorruptChunk);
});

/** Some bits of a frame's header mean nothing to the content: then the content must be right. */
function use(chunk: EncodedChunk, right: Uint8Array): void {
  const got = decodeChunk(chunk);
  assert.deepEqual(Buffer.from(got), Buffer.from(right));
  throw new CorruptChunk("the content is right all the same");
}

function assertRightOrCorrupt(chunk: EncodedChunk, right: Uint8Array): void {
  try {
    assert.deepEqual(Buffer.from(decodeChunk(chunk)), Buffer.from(right));
  } catch (error) {
    assert.ok(error instanceof CorruptChunk);
  }
}

function flipped(bytes: Uint8Array, bit: number): Buffer {
  const copy = Buffer.from(bytes);
  copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return copy;
}

test("zero means zero, at every length", () => {
  for (const length of [0, 1, 4095, 4096, 65_535, 65_536, 65_537, 200_000]) {
    const bytes = Buffer.alloc(length);
    assert.equal(isZero(bytes), true);
    for (const at of [0, length >> 1, length - 1].filter((each) => each >= 0 && each < length)) {
      bytes[at] = 1;
      assert.equal(isZero(bytes), false, `${at} of ${length}`);
      bytes[at] = 0;
    }
  }
});
