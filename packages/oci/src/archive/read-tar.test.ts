import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { Fault, type FaultCode } from "@cocoon/core";
import { count, testSeed } from "@cocoon/testkit";
import { inPieces, writeTestTar } from "../testing/tar-writer.ts";
import { readTar, type TarEntry } from "./read-tar.ts";

const limits = { what: "archive", maxEntries: 100, maxBytes: 1_000_000 };

async function readAll(
  archive: Buffer,
  pieceBytes?: number,
): Promise<(Omit<TarEntry, "content"> & { text: string })[]> {
  const found = [];
  for await (const { content, ...entry } of readTar(inPieces(archive, pieceBytes), limits)) {
    found.push({ ...entry, text: Buffer.concat(await Array.fromAsync(content)).toString() });
  }
  return found;
}

test("entries come with their attributes, however the bytes arrive", async () => {
  const archive = writeTestTar([
    { path: "a/", flag: "5", mode: 0o1777 },
    { path: "a/file", content: "hello", uid: 1000, gid: 100, mtime: 1_700_000_000, mode: 0o4755 },
    { path: "a/link", flag: "2", link: "file" },
    { path: "a/hard", flag: "1", link: "a/file" },
    { path: "null", flag: "3", major: 1, minor: 3 },
  ]);
  for (const pieceBytes of [1, 511, 512, 4096]) {
    const [directory, file, link, hard, device] = await readAll(archive, pieceBytes);
    assert.equal(directory?.type, "directory");
    assert.equal(directory?.mode, 0o1777);
    assert.deepEqual(
      [file?.text, file?.uid, file?.gid, file?.mtimeSeconds, file?.mode],
      ["hello", 1000, 100, 1_700_000_000, 0o4755],
    );
    assert.deepEqual([link?.type, link?.linkTarget], ["symlink", "file"]);
    assert.deepEqual([hard?.type, hard?.linkTarget], ["hardLink", "a/file"]);
    assert.deepEqual([device?.type, device?.deviceMajor, device?.deviceMinor], ["character", 1, 3]);
  }
});

test("extended headers win over the plain ones, for one entry", async () => {
  const name = `${"deep/".repeat(60)}file`;
  const capability = Buffer.from([1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  const [first, second] = await readAll(
    writeTestTar([
      {
        path: "short",
        content: "x",
        pax: { path: name, uid: "3000000", mtime: "12.5", "SCHILY.xattr.security.capability": capability },
      },
      { path: "plain", content: "y" },
    ]),
  );
  assert.equal(first?.path, name);
  assert.equal(first?.uid, 3_000_000);
  assert.equal(first?.mtimeSeconds, 12);
  assert.deepEqual(first?.records.get("SCHILY.xattr.security.capability"), capability);
  assert.deepEqual([second?.path, second?.uid, second?.records.size], ["plain", 0, 0]);
});

test("an entry whose content is not read is skipped", async () => {
  const paths: string[] = [];
  const archive = writeTestTar([
    { path: "a", content: "x".repeat(5000) },
    { path: "b", content: "y" },
  ]);
  for await (const entry of readTar(inPieces(archive), limits)) paths.push(entry.path);
  assert.deepEqual(paths, ["a", "b"]);
});

const malformed: readonly [name: string, archive: Buffer, code: FaultCode, message: RegExp][] = [
  ["no tar at all", Buffer.alloc(2048, 65), "invalid", /not a tar archive/],
  [
    "half a header",
    writeTestTar([{ path: "a" }], { end: false }).subarray(0, 300),
    "invalid",
    /middle of a header/,
  ],
  [
    "half a file",
    writeTestTar([{ path: "a", content: "x".repeat(3000) }]).subarray(0, 2000),
    "invalid",
    /middle of an entry/,
  ],
  ["a huge file", writeTestTar([{ path: "a", claimedSize: 5e9 }]), "tooLarge", /larger than 1000000 bytes/],
  [
    "a huge header",
    writeTestTar([{ path: "x", flag: "x", claimedSize: 5e8 }]),
    "tooLarge",
    /header of 500000000 bytes/,
  ],
  [
    "too many entries",
    writeTestTar(Array.from({ length: 101 }, (_, index) => ({ path: `f${index}` }))),
    "tooLarge",
    /100 entries/,
  ],
  [
    "a broken extended header",
    writeTestTar([{ path: "x", flag: "x", content: "99 path=a\n" }]),
    "invalid",
    /PAX record/,
  ],
  ["a negative owner", writeTestTar([{ path: "x", pax: { uid: "-5" } }]), "invalid", /uid of -5/],
  ["a negative size", writeTestTar([{ path: "x", pax: { size: "-5" } }]), "invalid", /size of -5/],
  ["a number that is none", writeTestTar([{ path: "x", pax: { mtime: "soon" } }]), "invalid", /mtime "soon"/],
  ["a sparse entry", writeTestTar([{ path: "x", flag: "S" }]), "notSupported", /sparse/],
];
for (const [name, archive, code, message] of malformed) {
  test(`${name} is one clear fault`, async () => {
    await assert.rejects(readAll(archive), (error) => {
      assert.ok(error instanceof Fault);
      assert.equal(error.code, code);
      assert.match(error.message, message);
      return true;
    });
  });
}

test("random damage ends in a fault or in entries, never in anything else", async () => {
  const whole = writeTestTar([
    { path: "dir/", flag: "5" },
    { path: "dir/a", content: "x".repeat(900), pax: { path: "dir/long" } },
    { path: "b", flag: "2", link: "dir/a" },
  ]);
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(whole.length - 1), fc.nat(255)), { minLength: 1, maxLength: 6 }),
      fc.nat(whole.length),
      async (changes, length) => {
        const damaged = Buffer.from(whole);
        for (const [at, byte] of changes) damaged[at] = byte;
        try {
          await readAll(damaged.subarray(0, length));
        } catch (error) {
          assert.ok(error instanceof Fault, String(error));
        }
      },
    ),
    { numRuns: count({ small: 200, full: 5000 }), seed: testSeed() },
  );
});
