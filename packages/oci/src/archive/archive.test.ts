import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdir, open, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { after, describe, it } from "node:test";
import { gzipSync } from "node:zlib";
import { isFault } from "@cocoon/core";
import { count, temporaryDirectory } from "@cocoon/testkit";
import fc from "fast-check";
import { WorkerPool } from "../chunks/worker-pool.ts";
import { listSourceFiles } from "../snapshot/source.ts";
import { writeTestTar } from "../testing/tar-writer.ts";
import { exportArchive } from "./export-archive.ts";
import { importArchive } from "./import-archive.ts";
import { formatEntry } from "./write-tar.ts";

const envelope = { config: { id: "ID7", name: "golden", cpu: 2, image_blob_ids: { ab12: {} } }, version: 1 };

const pool = new WorkerPool({ threads: 2 });
after(() => pool[Symbol.asyncDispose]());

async function exported(directory: string, signal: AbortSignal, gzip = false): Promise<Buffer> {
  const stream = exportArchive({ envelope, files: await listSourceFiles(directory), signal, gzip, pool });
  return Buffer.concat(await Array.fromAsync(stream as AsyncIterable<Buffer>));
}

const imported = (bytes: Uint8Array, directory: string, signal: AbortSignal) =>
  importArchive({ archive: Readable.from([bytes]), directory, signal });

/** Hand-made entries, to be independent of our writer. */
function tar(
  entries: readonly { name: string; body: string | Buffer; pax?: Record<string, string>; type?: string }[],
): Buffer {
  const blocks = entries.flatMap(({ name, body, pax, type }) => {
    const bytes = Buffer.from(body);
    const header = formatEntry({
      name,
      mode: 0o644,
      size: bytes.length,
      mtime: new Date(0),
      ...(pax ? { pax } : {}),
    });
    if (type) retype(header, type);
    return [header, bytes, Buffer.alloc((512 - (bytes.length % 512)) % 512)];
  });
  return Buffer.concat([...blocks, Buffer.alloc(1024)]);
}

function retype(header: Buffer, type: string): void {
  header.write(type, 156, "latin1");
  header.fill(" ", 148, 156);
  const sum = header.reduce((total, byte) => total + byte, 0);
  header.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
}

const json = JSON.stringify(envelope);

describe("snapshot archives", () => {
  it("any files come back, sparse ones with their holes, plain and in gzip", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    let number = 0;
    const file = fc.record({
      name: fc.stringMatching(/^[a-z][a-z0-9_.-]{0,30}$/),
      size: fc.nat({ max: 400_000 }),
      writes: fc.array(fc.tuple(fc.nat({ max: 400_000 }), fc.uint8Array({ minLength: 1, maxLength: 3000 })), {
        maxLength: 5,
      }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(file, { selector: (each) => each.name, maxLength: 4 }),
        fc.boolean(),
        async (files, gzip) => {
          number += 1;
          const source = join(directory.path, `source-${number}`);
          await mkdir(source);
          for (const { name, size, writes } of files.filter((each) => each.name !== "snapshot.json")) {
            await using handle = await open(join(source, name), "w");
            await handle.truncate(size);
            for (const [at, bytes] of writes) await handle.write(bytes, 0, bytes.length, at);
          }
          const back = join(directory.path, `back-${number}`);
          assert.deepEqual(await imported(await exported(source, signal, gzip), back, signal), envelope);
          const names = (await readdir(source)).sort();
          assert.deepEqual((await readdir(back)).sort(), [...names, "snapshot.json"].sort());
          for (const name of names)
            assert.ok((await readFile(join(source, name))).equals(await readFile(join(back, name))), name);
        },
      ),
      { numRuns: count({ small: 25, full: 400 }) },
    );
  });

  it("are what tar reads: the envelope first, files by name, only data in the body", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const source = join(directory.path, "vm");
    await mkdir(source);
    const long = `${"l".repeat(150)}.raw`;
    await writeFile(join(source, "b.json"), "{}", { mode: 0o600 });
    await writeFile(join(source, long), "disk");
    await using memory = await open(join(source, "a-memory"), "w");
    await memory.truncate(10 << 20);
    await memory.write("data", 5 << 20);
    const path = join(directory.path, "a.tar");
    await writeFile(path, await exported(source, signal));
    const list = execFileSync("tar", ["-tvf", path, "--numeric-owner"], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    assert.deepEqual(
      list
        .trim()
        .split("\n")
        .map((line) => [line.slice(0, 10), Number(line.split(/\s+/)[2]), line.split(/\s+/).at(-1)]),
      [
        ["-rw-r--r--", Buffer.byteLength(`${JSON.stringify(envelope, null, 2)}\n`), "snapshot.json"],
        ["-rw-r--r--", 4096, "a-memory"],
        ["-rw-------", 2, "b.json"],
        ["-rw-r--r--", 4, long],
      ],
    );
    const text = (await readFile(path)).toString("latin1");
    assert.match(text, /\d+ COCOON\.sparse\.map=\[\{"o":5242880,"l":4096\}\]\n/);
    assert.match(text, /\d+ COCOON\.sparse\.size=10485760\n/);
  });

  it("are read from tar, too: its names flattened, other things than files passed over", async ({
    signal,
  }) => {
    await using directory = await temporaryDirectory();
    const source = join(directory.path, "vm");
    await mkdir(join(source, "folder"), { recursive: true });
    await writeFile(join(source, "snapshot.json"), json);
    const long = "n".repeat(120);
    await writeFile(join(source, "folder", long), "long");
    await writeFile(join(source, "config.json"), "{}");
    await writeFile(join(source, "disk.raw"), Buffer.concat([Buffer.alloc(1 << 19), Buffer.from("end")]));
    execFileSync("ln", ["-s", "config.json", join(source, "link")]);
    for (const format of ["gnu", "posix"]) {
      const archive = execFileSync("tar", ["-c", `--format=${format}`, "-C", source, "."]);
      const back = join(directory.path, format);
      await imported(archive, back, signal);
      assert.deepEqual((await readdir(back)).sort(), ["config.json", "disk.raw", long, "snapshot.json"]);
      assert.equal(await readFile(join(back, long), "utf8"), "long");
      const { size, blocks } = await stat(join(back, "disk.raw"));
      assert.deepEqual([size, blocks * 512 < 64 * 1024], [(1 << 19) + 3, true], "zeros become holes");
    }
  });

  it("a sparse entry becomes a sparse file of its mode", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const pax = {
      "COCOON.sparse.map": '[{"o":1048576,"l":3},{"o":2097152,"l":2}]',
      "COCOON.sparse.size": "4194304",
    };
    const archive = tar([
      { name: "snapshot.json", body: json },
      { name: "x/memory-ranges", body: "abcde", pax },
    ]);
    const back = join(directory.path, "back");
    await imported(archive, back, signal);
    const content = await readFile(join(back, "memory-ranges"));
    assert.deepEqual(
      [
        content.length,
        content.toString("latin1", 1_048_576, 1_048_579),
        content.toString("latin1", 2_097_152, 2_097_154),
      ],
      [4_194_304, "abc", "de"],
    );
    const { blocks, mode } = await stat(join(back, "memory-ranges"));
    assert.ok(blocks < 100);
    assert.equal(mode & 0o777, 0o644);
  });

  it("a file is never run as another user, and a newer version is not read", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const bytes = writeTestTar([
      { path: "snapshot.json", content: json },
      { path: "m", content: "x", mode: 0o6755 },
    ]);
    await imported(bytes, join(directory.path, "back"), signal);
    assert.equal((await stat(join(directory.path, "back", "m"))).mode & 0o7777, 0o755);
    const newer = tar([{ name: "snapshot.json", body: '{"config":{"name":"x"},"version":2}' }]);
    await assert.rejects(
      imported(newer, join(directory.path, "newer"), signal),
      (error) => isFault(error, "preconditionFailed") && /archive version 2/.test(error.message),
    );
  });

  const sparse = (map: string, size: string) => ({ "COCOON.sparse.map": map, "COCOON.sparse.size": size });
  const bad: readonly [string, Buffer][] = [
    ["nothing", Buffer.alloc(0)],
    ["no envelope", tar([{ name: "memory", body: "x" }])],
    [
      "an envelope of another version",
      tar([{ name: "snapshot.json", body: '{"config":{"name":"x"},"version":2}' }]),
    ],
    ["an envelope that is no JSON", tar([{ name: "snapshot.json", body: "{" }])],
    [
      "a map beyond the file",
      tar([
        { name: "snapshot.json", body: json },
        { name: "m", body: "ab", pax: sparse('[{"o":9,"l":2}]', "10") },
      ]),
    ],
    [
      "a map for another body",
      tar([
        { name: "snapshot.json", body: json },
        { name: "m", body: "abc", pax: sparse('[{"o":1,"l":2}]', "10") },
      ]),
    ],
    [
      "a map without a size",
      tar([
        { name: "snapshot.json", body: json },
        { name: "m", body: "ab", pax: { "COCOON.sparse.map": '[{"o":0,"l":2}]' } },
      ]),
    ],
    [
      "a name twice",
      tar([
        { name: "snapshot.json", body: json },
        { name: "m", body: "1" },
        { name: "a/m", body: "2" },
      ]),
    ],
    [
      "a name that is no file's",
      tar([
        { name: "snapshot.json", body: json },
        { name: "a/..", body: "1" },
      ]),
    ],
    ["broken gzip", gzipSync(tar([{ name: "snapshot.json", body: json }])).subarray(0, 60)],
    ["something else", Buffer.from("this is not a tar archive at all ".repeat(40))],
  ];
  for (const [what, archive] of bad)
    it(`${what} is refused, and nothing is left`, async ({ signal }) => {
      await using directory = await temporaryDirectory();
      await assert.rejects(imported(archive, join(directory.path, "back"), signal), (error) =>
        isFault(error),
      );
      assert.deepEqual(await readdir(directory.path), []);
    });

  it("cut off anywhere, or with any header bit flipped, it is refused", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const archive = tar([
      { name: "snapshot.json", body: json },
      { name: "m", body: "abc", pax: sparse('[{"o":1,"l":3}]', "10") },
    ]);
    const end = archive.length - 1024;
    for (let cut = 1; cut < end; cut += 97) {
      const back = join(directory.path, `cut-${cut}`);
      if (cut === 1024) continue; // a whole first entry, and then a clean end
      await assert.rejects(
        imported(archive.subarray(0, cut), back, signal),
        (error) => isFault(error, "invalid"),
        `cut at ${cut}`,
      );
    }
    for (let bit = 0; bit < 512 * 8; bit += 31) {
      if (bit >= 154 * 8 && bit < 156 * 8) continue; // what ends the checksum's own field is up to the writer
      const damaged = Buffer.from(archive);
      damaged[bit >> 3] = (damaged[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      await assert.rejects(
        imported(damaged, join(directory.path, `bit-${bit}`), signal),
        (error) => isFault(error),
        `bit ${bit}`,
      );
    }
    assert.deepEqual(await readdir(directory.path), []);
  });

  it("content that was damaged on the way is refused", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    const source = join(directory.path, "vm");
    await mkdir(source);
    await writeFile(join(source, "disk.raw"), "some content of a disk");
    const archive = await exported(source, signal);
    const at = archive.indexOf("some content");
    for (let bit = 0; bit < 22 * 8; bit += 5) {
      const damaged = Buffer.from(archive);
      damaged[at + (bit >> 3)] = (damaged[at + (bit >> 3)] ?? 0) ^ (1 << (bit & 7));
      const back = join(directory.path, "back");
      await assert.rejects(
        imported(damaged, back, signal),
        (error) => isFault(error, "invalid"),
        `bit ${bit}`,
      );
    }
    assert.deepEqual(await readdir(directory.path), ["vm"]);
  });

  it("does not replace what is there", async ({ signal }) => {
    await using directory = await temporaryDirectory();
    await writeFile(join(directory.path, "precious"), "x");
    await assert.rejects(
      imported(tar([{ name: "snapshot.json", body: json }]), directory.path, signal),
      (error) => isFault(error, "alreadyExists"),
    );
    assert.deepEqual(await readdir(directory.path), ["precious"]);
  });
});
