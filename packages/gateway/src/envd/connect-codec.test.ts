import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { testSeed } from "@cocoon/testkit";
import { ConnectError, encodeEnvelope, readEnvelopes } from "./connect-codec.ts";

async function* inPieces(bytes: Buffer, sizes: readonly number[]): AsyncGenerator<Buffer> {
  let at = 0;
  for (const size of sizes) {
    if (at >= bytes.length) return;
    yield bytes.subarray(at, at + size);
    at += size;
  }
  if (at < bytes.length) yield bytes.subarray(at);
}

test("envelopes look as the SDKs expect them", () => {
  const expected = Buffer.concat([
    Buffer.from([0, 0, 0, 0, 0x1f]),
    Buffer.from('{"event":{"start":{"pid":501}}}'),
  ]);
  assert.deepEqual(encodeEnvelope(0, { event: { start: { pid: 501 } } }), expected);
});

test("messages are read however the bytes are cut", async () => {
  const json = fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer(), fc.boolean()));
  const property = fc.asyncProperty(
    fc.array(json, { maxLength: 8 }),
    fc.array(fc.integer({ min: 1, max: 9 })),
    async (messages, sizes) => {
      const bytes = Buffer.concat(messages.map((message) => encodeEnvelope(0, message)));
      const read = await Array.fromAsync(readEnvelopes(inPieces(bytes, sizes)));
      assert.deepEqual(read, JSON.parse(JSON.stringify(messages)));
    },
  );
  await fc.assert(property, { seed: testSeed() });
});

test("what is no envelope is refused", async () => {
  const cases: readonly [Buffer, RegExp][] = [
    [Buffer.from([1, 0, 0, 0, 2, 0x7b, 0x7d]), /compression/],
    [Buffer.from([0, 0xff, 0, 0, 0]), /limit/],
    [Buffer.from([0, 0, 0, 0, 9, 0x7b]), /middle of an envelope/],
    [Buffer.from([0, 0, 0, 0, 1, 0x7b]), /not JSON/],
  ];
  for (const [bytes, message] of cases)
    await assert.rejects(
      Array.fromAsync(readEnvelopes(inPieces(bytes, []))),
      (error) => error instanceof ConnectError && message.test(error.message),
    );
});
