import assert from "node:assert/strict";
import { fork } from "node:child_process";
import { hash, randomBytes } from "node:crypto";
import { once } from "node:events";
import { readdir, readFile, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { describe, it } from "node:test";
import { count, killChild, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { ChunkStore, type PackedChunk } from "./chunk-store.ts";

interface TestPack {
  readonly digest: string;
  readonly bytes: Buffer;
  readonly chunks: readonly PackedChunk[];
}

/** A pack of raw chunks. */
function pack(chunkCount = 4, chunkBytes = 1000): TestPack {
  const pieces = Array.from({ length: chunkCount }, () => randomBytes(chunkBytes));
  const bytes = Buffer.concat(pieces);
  const chunks = pieces.map((piece, index) => ({
    id: hash("sha256", piece),
    offset: index * chunkBytes,
    length: chunkBytes,
    rawLength: chunkBytes,
    encoding: "raw" as const,
  }));
  return { digest: `sha256:${hash("sha256", bytes)}`, bytes, chunks };
}

const add = (store: ChunkStore, { digest, bytes, chunks }: TestPack): Promise<string> =>
  store.addPack({ digest, chunks, write: (file) => file.write(bytes, 0) });

const has = (store: ChunkStore, each: TestPack): boolean => store.findPack(each.digest) !== undefined;

describe("chunk store", () => {
  it("finds what was added, again after it was opened anew, and nothing else", async () => {
    await using directory = await temporaryDirectory();
    const options = { directory: directory.path, limitBytes: 1e6 };
    const [known, other] = [pack(), pack()];
    {
      using store = await ChunkStore.open(options);
      await add(store, known);
      await add(store, known);
    }
    using store = await ChunkStore.open(options);
    const found = await store.find([...known.chunks, ...other.chunks].map((each) => each.id));
    assert.deepEqual(
      [...found.keys()],
      known.chunks.map((each) => each.id),
    );
    for (const { path, offset, length, id } of found.values()) {
      const bytes = (await readFile(path)).subarray(offset, offset + length);
      assert.equal(hash("sha256", bytes), id);
    }
    assert.deepEqual(store.stats(), { packs: 1, chunks: 4, bytes: 4000, pinnedBytes: 0, limitBytes: 1e6 });
  });

  it("keeps to its bound and lets go of the least recently used first", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 12_000 });
    const packs = [pack(), pack(), pack()];
    for (const each of packs) await add(store, each);
    await new Promise((resolve) => setTimeout(resolve, 5));
    store.touch([packs[0]?.digest ?? ""]);
    await add(store, pack());
    assert.deepEqual(
      packs.map((each) => has(store, each)),
      [true, false, true],
    );
    assert.equal(
      (await readdir(join(directory.path, "packs"), { recursive: true })).filter((each) => each.length > 60)
        .length,
      3,
    );
    assert.ok(store.stats().bytes <= 12_000);
  });

  it("never lets go of what is pinned, not even beyond its bound", async () => {
    await using directory = await temporaryDirectory();
    const options = { directory: directory.path, limitBytes: 4000 };
    const [sleeping, running] = [pack(), pack()];
    {
      using store = await ChunkStore.open(options);
      store.pin("vm-a", [sleeping.digest]); // before it is here
      await add(store, sleeping);
      await add(store, running);
      store.pin("vm-b", [running.digest]);
    }
    using store = await ChunkStore.open(options);
    for (let round = 0; round < 5; round += 1) await add(store, pack());
    assert.deepEqual([has(store, sleeping), has(store, running)], [true, true]);
    assert.deepEqual(store.owners(), ["vm-a", "vm-b"]);
    assert.equal(store.stats().pinnedBytes, 8000);
    store.unpin("vm-a");
    await store.makeRoom();
    assert.deepEqual([has(store, sleeping), has(store, running)], [false, true]);
  });

  it("pins are replaced whole, and shared packs need every owner's leave", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1 });
    const [shared, own] = [pack(), pack()];
    store.pin("a", [shared.digest, own.digest]);
    store.pin("b", [shared.digest]);
    await add(store, shared);
    await add(store, own);
    store.pin("a", [own.digest]);
    await store.makeRoom();
    assert.equal(has(store, shared), true);
    store.unpin("b");
    await store.makeRoom();
    assert.deepEqual([has(store, shared), has(store, own)], [false, true]);
  });

  it("what an operation holds stays until it ends", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1 });
    const held = pack();
    {
      using _hold = store.hold([held.digest]);
      await add(store, held);
      await add(store, pack());
      assert.equal(has(store, held), true);
    }
    await store.makeRoom();
    assert.equal(has(store, held), false);
  });

  it("parts of packs grow, and give way to the whole", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1e6 });
    const { digest, bytes, chunks } = pack();
    for (const chunk of [chunks[2], chunks[0]])
      if (chunk)
        await store.addPack({
          digest,
          partial: true,
          chunks: [chunk],
          write: (file) =>
            file.write(bytes.subarray(chunk.offset, chunk.offset + chunk.length), chunk.offset),
        });
    const ids = chunks.map((each) => each.id);
    assert.deepEqual(new Set((await store.find(ids)).keys()), new Set([ids[0], ids[2]]));
    assert.equal(store.findPack(digest), undefined, "a part is not the pack");
    await add(store, { digest, bytes, chunks });
    assert.equal((await store.find(ids)).size, 4);
  });

  it("a delta is known only together with what it stands on", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1e6 });
    const [bases, deltas] = [pack(), pack()];
    const chunks = deltas.chunks.map((each, index) => ({
      ...each,
      encoding: "delta" as const,
      baseId: bases.chunks[index]?.id ?? "",
    }));
    await add(store, { ...deltas, chunks });
    const ids = chunks.map((each) => each.id);
    assert.equal((await store.find(ids)).size, 0);
    await add(store, bases);
    const found = await store.find(ids);
    assert.deepEqual(
      [...found.values()].map((each) => each.base?.id),
      bases.chunks.map((each) => each.id),
    );
  });

  it("a chunk that another pack held is found again in the pack that is left", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1e6 });
    const one = pack();
    const more = Buffer.concat([one.bytes, randomBytes(10)]);
    const two: TestPack = { digest: `sha256:${hash("sha256", more)}`, bytes: more, chunks: one.chunks };
    await add(store, one);
    await add(store, two);
    await store.forgetPacks([one.digest]);
    assert.equal((await store.find(one.chunks.map((each) => each.id))).size, 0);
    await add(store, two);
    assert.equal((await store.find(one.chunks.map((each) => each.id))).size, 4);
  });

  it("small blobs are checked when they are read, and forgotten when they are damaged", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1e6 });
    const bytes = randomBytes(500);
    const digest = `sha256:${hash("sha256", bytes)}`;
    await store.addBlob(digest, bytes);
    assert.ok((await store.tryReadBlob(digest))?.equals(bytes));
    const path = store.findPack(digest) ?? "";
    bytes[250] = (bytes[250] ?? 0) ^ 4;
    await writeFile(path, bytes);
    assert.equal(await store.tryReadBlob(digest), undefined);
    assert.equal(store.findPack(digest), undefined);
  });

  it("a database that is damaged is replaced by an empty one", async () => {
    await using directory = await temporaryDirectory();
    const options = { directory: directory.path, limitBytes: 1e6 };
    {
      using store = await ChunkStore.open(options);
      await add(store, pack());
    }
    for (const name of ["store.db-wal", "store.db-shm"])
      await rm(join(directory.path, name), { force: true });
    await writeFile(join(directory.path, "store.db"), randomBytes(8192));
    using store = await ChunkStore.open(options);
    assert.equal(store.stats().packs, 0);
    await add(store, pack());
    assert.equal(store.stats().packs, 1);
  });

  it("damage that shows in the middle of the work ends in an empty store, not in an error", async () => {
    await using directory = await temporaryDirectory();
    using store = await ChunkStore.open({ directory: directory.path, limitBytes: 1e6 });
    await add(store, pack());
    using elsewhere = new DatabaseSync(join(directory.path, "store.db"));
    elsewhere.exec("DROP TABLE chunk");
    await add(store, pack());
    assert.equal(store.stats().packs, 1);
  });

  it("files that a crash left behind go away in time", async () => {
    await using directory = await temporaryDirectory();
    const options = { directory: directory.path, limitBytes: 1e6 };
    (await ChunkStore.open(options))[Symbol.dispose]();
    const left = [join(directory.path, "tmp", "old"), join(directory.path, "tmp", "new")];
    for (const path of left) await writeFile(path, "x");
    await utimes(left[0] ?? "", 0, 0);
    (await ChunkStore.open(options))[Symbol.dispose]();
    assert.deepEqual(await readdir(join(directory.path, "tmp")), ["new"]);
  });
});

describe("a chunk store whose process is killed", () => {
  it("keeps its pins and what they protect, at every point", async () => {
    const random = seededRandom(testSeed());
    await using directory = await temporaryDirectory();
    for (let round = 0; round < count({ small: 3, full: 60 }); round += 1) {
      const child = fork(join(import.meta.dirname, "../testing/store-worker.ts"), [directory.path], {
        execArgv: [], // with the runner's own options it would be run as a test
        stdio: "pipe",
      });
      const pinned: string[] = [];
      child.on("message", (message: { digest: string }) => pinned.push(message.digest));
      await once(child, "message"); // it has pinned something
      await new Promise((resolve) => setTimeout(resolve, random() * 120));
      await killChild(child);
      using store = await ChunkStore.open({ directory: directory.path, limitBytes: 20_000 });
      await store.makeRoom();
      for (const digest of pinned) {
        const bytes = await store.tryReadBlob(digest);
        assert.ok(bytes, `${digest} was pinned and is gone`);
      }
      const { bytes, pinnedBytes } = store.stats();
      assert.ok(bytes - pinnedBytes <= 20_000, "holds of the dead process have ended");
      for (const owner of store.owners()) store.unpin(owner);
      await store.makeRoom();
    }
  });
});
