import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault } from "@cocoon/core";
import { count, testSeed } from "@cocoon/testkit";
import { writeFatDisk } from "./fat-disk.ts";

/** Reads such a disk as the kernel would: by its own numbers, long names, chains of clusters. */
function readFatDisk(image: Buffer): { label: string; files: Record<string, Buffer> } {
  const perCluster = image.readUInt8(13) * 512;
  const tableStart = image.readUInt16LE(14) * 512;
  const tableBytes = image.readUInt16LE(22) * 512;
  const rootStart = tableStart + image.readUInt8(16) * tableBytes;
  const dataStart = rootStart + image.readUInt16LE(17) * 32;
  const next = (cluster: number) => {
    const pair = image.readUInt16LE(tableStart + Math.floor(cluster * 1.5));
    return cluster % 2 === 0 ? pair & 0xfff : pair >> 4;
  };
  const files: Record<string, Buffer> = {};
  let label = "";
  let long = "";
  for (let at = rootStart; at < dataStart && image[at] !== 0; at += 32) {
    const entry = image.subarray(at, at + 32);
    const kind = entry.readUInt8(11);
    if (kind === 0x0f) {
      const characters = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30].map((each) =>
        entry.readUInt16LE(each),
      );
      long = String.fromCharCode(...characters.filter((each) => each !== 0 && each !== 0xffff)) + long;
    } else if (kind & 0x08) {
      label = entry.toString("latin1", 0, 11).trimEnd();
    } else {
      const chunks: Buffer[] = [];
      for (let cluster = entry.readUInt16LE(26); cluster >= 2 && cluster < 0xff8; cluster = next(cluster)) {
        const start = dataStart + (cluster - 2) * perCluster;
        chunks.push(image.subarray(start, start + perCluster));
      }
      files[long] = Buffer.concat(chunks).subarray(0, entry.readUInt32LE(28));
      long = "";
    }
  }
  return { label, files };
}

test("files come back under their names, whatever their size", () => {
  const name = fc.stringMatching(/^[a-z][a-z0-9.-]{0,60}$/);
  const content = fc.uint8Array({ maxLength: 40_000 }).map((bytes) => Buffer.from(bytes));
  fc.assert(
    fc.property(fc.dictionary(name, content, { maxKeys: 12 }), (files) => {
      const disk = readFatDisk(writeFatDisk({ label: "CIDATA", files }));
      assert.equal(disk.label, "CIDATA");
      assert.deepEqual(disk.files, { ...files });
    }),
    { numRuns: count({ small: 60, full: 1000 }), seed: testSeed() },
  );
});

test("a disk is at least a mebibyte, grows with its content, and is the same each time", () => {
  const small = writeFatDisk({ label: "CIDATA", files: { a: Buffer.from("x") } });
  assert.ok(small.length > 1_000_000 && small.length < 1_100_000, String(small.length));
  assert.deepEqual(small, writeFatDisk({ label: "CIDATA", files: { a: Buffer.from("x") } }));
  const large = writeFatDisk({ label: "CIDATA", files: { a: Buffer.alloc(3_500_000, 7) } });
  assert.deepEqual(readFatDisk(large).files["a"], Buffer.alloc(3_500_000, 7));
});

test("settings that do not fit are refused", () => {
  assert.throws(
    () => writeFatDisk({ label: "CIDATA", files: { a: Buffer.alloc(5_000_000) } }),
    (error) => error instanceof Fault && error.code === "tooLarge",
  );
});
