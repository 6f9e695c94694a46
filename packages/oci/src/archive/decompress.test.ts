import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync, zstdCompressSync } from "node:zlib";
import { Fault } from "@cocoon/core";
import { decompress } from "./decompress.ts";
import { inPieces } from "../testing/tar-writer.ts";

const plain = Buffer.from("hello world ".repeat(5000));

async function unpack(bytes: Buffer): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(decompress(inPieces(bytes, 333))));
}

test("packed streams are unpacked by what they are, others pass", async () => {
  assert.deepEqual(await unpack(plain), plain);
  assert.deepEqual(await unpack(gzipSync(plain)), plain);
  assert.deepEqual(await unpack(zstdCompressSync(plain)), plain);
  assert.deepEqual(await unpack(Buffer.alloc(0)), Buffer.alloc(0));
});

const damagedGzip = gzipSync(plain);
damagedGzip[40] = (damagedGzip[40] ?? 0) ^ 0xff;
for (const [name, bytes, code] of [
  ["a cut gzip", gzipSync(plain).subarray(0, 60), "invalid"],
  ["a cut zstd", zstdCompressSync(plain).subarray(0, 20), "invalid"],
  ["a damaged gzip", damagedGzip, "invalid"],
  ["xz", Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a, 0, 0, 0, 0]), "notSupported"],
] as const) {
  test(`${name} is one clear fault`, async () => {
    await assert.rejects(unpack(bytes), (error) => error instanceof Fault && error.code === code);
  });
}

test("the source's own failure stays what it was", async () => {
  async function* failing(): AsyncGenerator<Buffer> {
    yield gzipSync(plain).subarray(0, 50);
    throw new Fault("unavailable", "the line is dead");
  }
  await assert.rejects(Array.fromAsync(decompress(failing())), /the line is dead/);
});
