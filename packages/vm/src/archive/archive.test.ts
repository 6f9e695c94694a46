import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, open, readFile, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import fc from "fast-check";
import { readArchive } from "./read-archive.ts";
import { findData, totalLength } from "./sparse.ts";
import { readPaxRecords, writeHeaders } from "./tar-format.ts";
import { writeArchive } from "./write-archive.ts";

const { signal } = new AbortController();
const modifiedAt = new Date("2026-01-02T03:04:05Z");
const block = 4096;

async function archiveOf(
  directory: string,
  names: readonly string[],
  envelope: unknown = { version: 1 },
): Promise<Buffer> {
  const files = names.map((name) => ({ name, path: join(directory, name), mode: 0o644 }));
  return Buffer.concat(
    await Readable.from(writeArchive({ envelope, files, modifiedAt }, { signal })).toArray(),
  );
}

/** A file whose blocks are zero or not, as told. */
async function makeFile(path: string, blocks: readonly boolean[], tail = 0): Promise<Buffer> {
  const content = Buffer.concat([
    ...blocks.map((filled, index) => Buffer.alloc(block, filled ? (index % 255) + 1 : 0)),
    Buffer.alloc(tail, 7),
  ]);
  await writeFile(path, content);
  return content;
}

test("what goes in comes out, holes and all, whatever the files look like", async () => {
  await using directory = await temporaryDirectory();
  let round = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.array(fc.boolean(), { maxLength: 80 }), fc.integer({ min: 0, max: block })), {
        maxLength: 3,
      }),
      async (shapes) => {
        round += 1;
        const [from, to] = [join(directory.path, `${round}-from`), join(directory.path, `${round}-to`)];
        await mkdir(from);
        await mkdir(to);
        const contents = await Promise.all(
          shapes.map(([blocks, tail], index) => makeFile(join(from, `file-${index}`), blocks, tail)),
        );
        const archive = await archiveOf(
          from,
          contents.map((_content, index) => `file-${index}`),
        );
        const envelope = await readArchive(Readable.from([archive]), to, { signal });
        assert.deepEqual(JSON.parse(envelope), { version: 1 });
        for (const [index, content] of contents.entries())
          assert.ok(content.equals(await readFile(join(to, `file-${index}`))), `file ${index}`);
      },
    ),
    { numRuns: 40 },
  );
});

test("a sparse file is stored without its holes, with a map that says where its data was", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "memory-ranges");
  await makeFile(path, [
    ...Array.from({ length: 64 }, () => false),
    true,
    ...Array.from({ length: 63 }, () => false),
    true,
  ]);
  const archive = await archiveOf(directory.path, ["memory-ranges"]);
  assert.ok(archive.length < 16 * 1024, String(archive.length));
  const text = archive.toString("latin1");
  assert.match(text, /COCOON\.sparse\.map=\[\{"o":262144,"l":4096\},\{"o":524288,"l":4096\}\]\n/);
  assert.match(text, /COCOON\.sparse\.size=528384\n/);
});

test("tar itself reads what we write, and the envelope comes first", async () => {
  await using directory = await temporaryDirectory();
  await makeFile(join(directory.path, "zebra"), [true]);
  await makeFile(join(directory.path, "apple"), [true], 100);
  const archive = join(directory.path, "archive.tar");
  await writeFile(archive, await archiveOf(directory.path, ["zebra", "apple"]));
  const listed = execFileSync("tar", ["-tf", archive], { encoding: "utf8" }).trim().split("\n");
  assert.deepEqual(listed, ["snapshot.json", "apple", "zebra"]);
});

test("we read what tar writes, gzipped or not, and make holes of its zeroes", async () => {
  await using directory = await temporaryDirectory();
  const [from, to] = [join(directory.path, "from"), join(directory.path, "to")];
  await mkdir(from);
  await writeFile(join(from, "snapshot.json"), "{}");
  const zeroes = Array.from({ length: 512 }, () => false);
  const content = await makeFile(join(from, "disk.raw"), [...zeroes, true]);
  const archive = execFileSync("tar", ["-C", from, "-cf", "-", "disk.raw", "snapshot.json"], {
    maxBuffer: 2 ** 26,
  });
  for (const bytes of [archive, gzipSync(archive)]) {
    await mkdir(to, { recursive: true });
    assert.equal(await readArchive(Readable.from([bytes]), to, { signal }), "{}");
    assert.ok(content.equals(await readFile(join(to, "disk.raw"))));
    const { blocks } = await stat(join(to, "disk.raw"));
    assert.ok(blocks * 512 < 64 * 1024, `${blocks} blocks`);
    execFileSync("rm", ["-r", to]);
  }
});

test("a cut or damaged archive is invalid at every point", async () => {
  await using directory = await temporaryDirectory();
  await makeFile(join(directory.path, "file"), [true, false, true], 10);
  const archive = await archiveOf(directory.path, ["file"]);
  for (const length of [0, 100, 511, 513, 1500, 4000, archive.length - 5000]) {
    const to = join(directory.path, `cut-${length}`);
    await mkdir(to);
    await assert.rejects(
      readArchive(Readable.from([archive.subarray(0, length)]), to, { signal }),
      (error) => isFault(error, "invalid"),
      String(length),
    );
  }
  const damaged = Buffer.from(archive);
  damaged[10] = 0xff;
  await assert.rejects(readArchive(Readable.from([damaged]), directory.path, { signal }), /checksum/);
});

test("names that lead elsewhere and maps that do not fit are refused", async () => {
  await using directory = await temporaryDirectory();
  const entry = (name: string, records: ReadonlyMap<string, string>, body: Buffer) =>
    Buffer.concat([
      writeHeaders({ name, size: body.length, mode: 0o644, modifiedAt }, records),
      body,
      Buffer.alloc((512 - (body.length % 512)) % 512),
    ]);
  const body = Buffer.alloc(512, 1);
  const bad: readonly Buffer[] = [
    entry(".hidden", new Map(), body),
    entry("na\u0001me", new Map(), body),
    entry(
      "f",
      new Map([
        ["COCOON.sparse.map", '[{"o":0,"l":9999}]'],
        ["COCOON.sparse.size", "512"],
      ]),
      body,
    ),
    entry(
      "f",
      new Map([
        ["COCOON.sparse.map", '[{"o":0,"l":512}]'],
        ["COCOON.sparse.size", "-1"],
      ]),
      body,
    ),
    entry(
      "f",
      new Map([
        ["COCOON.sparse.map", "nonsense"],
        ["COCOON.sparse.size", "512"],
      ]),
      body,
    ),
  ];
  for (const archive of bad)
    await assert.rejects(readArchive(Readable.from([archive]), directory.path, { signal }), (error) =>
      isFault(error, "invalid"),
    );
  await readArchive(
    Readable.from([
      entry("../../escape", new Map(), body),
      entry("snapshot.json", new Map(), body),
      Buffer.alloc(1024),
    ]),
    directory.path,
    { signal },
  );
  assert.deepEqual(await readdir(directory.path), ["escape"], "only the base name counts");
});

test("PAX records count their own length", () => {
  for (const length of [1, 80, 87, 88, 89, 970, 980, 990, 9980]) {
    const header = writeHeaders(
      { name: "x", size: 0, mode: 0o644, modifiedAt },
      new Map([["k", "v".repeat(length)]]),
    );
    assert.deepEqual(
      readPaxRecords(header.subarray(512, header.length - 512 - ((512 - (sizeOf(header) % 512)) % 512))),
      new Map([["k", "v".repeat(length)]]),
    );
  }
});

function sizeOf(header: Buffer): number {
  return Number.parseInt(header.toString("latin1", 124, 135), 8);
}

test("data is found however long the file is", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "sparse");
  await using file = await open(path, "w+");
  await file.truncate(64 * 2 ** 20);
  await file.write(Buffer.from("x"), 0, 1, 40 * 2 ** 20 + 5);
  const data = await findData(file, { signal });
  assert.deepEqual(data, [{ offset: 40 * 2 ** 20, length: block }]);
  assert.equal(totalLength(data), block);
});
