import assert from "node:assert/strict";
import { closeSync, ftruncateSync, openSync } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { ChunkStore } from "../chunks/chunk-store.ts";
import { openRegistry } from "../registry/registry.ts";
import { openSnapshotClient } from "../snapshot/snapshot-client.ts";
import { startFakeRegistry } from "../testing/fake-registry.ts";
import { assertMachine, makeMachine, readMachine, runMachine } from "../testing/machine.ts";
import { LazyFiles } from "./lazy-files.ts";
import { openLazySnapshot, readLazyFile, type LazySnapshot } from "./open-lazy.ts";

interface World extends AsyncDisposable {
  readonly path: string;
  readonly content: ReadonlyMap<string, Buffer>;
  /** The second snapshot of a machine: some of its chunks are deltas. */
  readonly snapshot: LazySnapshot;
  /** Files that fill up in that directory, opened again after a restart. */
  openFiles(
    directory: string,
    options?: { readonly resumed?: boolean; readonly snapshot?: LazySnapshot },
  ): Promise<LazyFiles>;
}

async function openWorld(signal: AbortSignal): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(await startFakeRegistry());
  const registry = stack.use(openRegistry({ address: server.url, retry: { baseMs: 1, maxMs: 5 } }));
  const repository = registry.repository("vk-lab-lazy");
  const random = seededRandom(testSeed());
  const directory = join(path, "vm");
  const store = { directory: join(path, "store"), limitBytes: 1 << 30 };
  await using client = await openSnapshotClient({ store, threads: 1 });
  const push = { repository, tag: "hibernate", format: "packed", signal } as const;
  await client.push({ source: await makeMachine(directory, random), ...push });
  await client.push({ source: await runMachine(directory, random), ...push });
  const snapshot = await openLazySnapshot({ repository, reference: "hibernate", signal });
  return {
    path,
    content: await readMachine(directory),
    snapshot,
    openFiles: async (into, options = {}) => {
      await mkdir(into, { recursive: true });
      const files = snapshot.index.files.map(({ name, size }) => {
        const fd = openSync(join(into, name), "a+");
        closeSync(fd);
        const writable = openSync(join(into, name), "r+");
        ftruncateSync(writable, size);
        stack.defer(() => closeSync(writable));
        return writable;
      });
      const { snapshot: other = snapshot, resumed = false } = options;
      return new LazyFiles({ ...other, resumed, files, signal });
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

test("what was waited for is there, and in the end everything is", async ({ signal }) => {
  await using world = await openWorld(signal);
  const random = seededRandom(testSeed());
  const directory = join(world.path, "lazy");
  const files = await world.openFiles(directory);
  const rest = files.loadRest();
  const reads = Array.from({ length: 40 }, async () => {
    const number = Math.floor(random() * world.snapshot.index.files.length);
    const file = world.snapshot.index.files[number];
    if (!file || file.size === 0) return;
    const offset = Math.floor(random() * file.size);
    const length = Math.min(file.size - offset, 1 + Math.floor(random() * 200_000));
    await files.ensure(number, offset, length);
    assert.ok(files.has(number, offset, length));
    await using handle = await open(join(directory, file.name), "r");
    const { buffer } = await handle.read(Buffer.alloc(length), 0, length, offset);
    assert.ok(
      world.content
        .get(file.name)
        ?.subarray(offset, offset + length)
        .equals(buffer),
      file.name,
    );
  });
  await Promise.all([...reads, rest]);
  assert.equal(files.counts.doneBytes, files.counts.totalBytes);
  await assertMachine(directory, world.content);
});

test("a registry that is away, or answers with wrong bytes, is asked again until it answers right", async ({
  signal,
}) => {
  await using world = await openWorld(signal);
  let asked = 0;
  const snapshot: LazySnapshot = {
    ...world.snapshot,
    readPack: async (...request) => {
      asked += 1;
      const bytes = await world.snapshot.readPack(...request);
      if (asked % 3 === 1) throw new Error("connection refused");
      return asked % 3 === 2 ? Buffer.from(bytes.map((each) => each ^ 1)) : bytes;
    },
  };
  const directory = join(world.path, "lazy");
  const files = await world.openFiles(directory, { snapshot });
  await files.loadRest();
  assert.equal(files.counts.problem, "");
  await assertMachine(directory, world.content);
});

test("after a restart what is on disk is checked and not fetched again", async ({ signal }) => {
  await using world = await openWorld(signal);
  const directory = join(world.path, "lazy");
  await (await world.openFiles(directory)).loadRest();
  await using damaged = await open(join(directory, "overlay.qcow2"), "r+");
  await damaged.write(Buffer.from("damaged"), 0, 7, 70_000);
  const again = await world.openFiles(directory, { resumed: true });
  await again.loadRest();
  assert.ok(again.counts.fetchedBytes > 0 && again.counts.fetchedBytes < 200_000);
  await assertMachine(directory, world.content);
});

test("what the node's chunk store has is not fetched", async ({ signal }) => {
  await using world = await openWorld(signal);
  using store = await ChunkStore.open({ directory: join(world.path, "store"), limitBytes: 1 << 30 });
  const directory = join(world.path, "lazy");
  const snapshot = { ...world.snapshot, store };
  const files = await world.openFiles(directory, { snapshot });
  await files.loadRest();
  assert.equal(files.counts.fetchedBytes, 0);
  await assertMachine(directory, world.content);
});

test("what was fetched is in the node's chunk store afterwards, also what a reader waited for", async ({
  signal,
}) => {
  await using world = await openWorld(signal);
  using store = await ChunkStore.open({ directory: join(world.path, "other-store"), limitBytes: 1 << 30 });
  const snapshot = { ...world.snapshot, store };
  const files = await world.openFiles(join(world.path, "lazy"), { snapshot });
  for (const [number, { size }] of world.snapshot.index.files.entries())
    if (size > 0) await files.ensure(number, 0, 1);
  const { fetchedBytes } = files.counts;
  await files.loadRest();
  assert.ok(fetchedBytes > 0 && fetchedBytes < files.counts.fetchedBytes);
  await assertMachine(join(world.path, "lazy"), world.content);
  const again = await world.openFiles(join(world.path, "again"), { snapshot });
  await again.loadRest();
  assert.equal(again.counts.fetchedBytes, 0);
  await assertMachine(join(world.path, "again"), world.content);
});

test("one small file is read whole", async ({ signal }) => {
  await using world = await openWorld(signal);
  const read = await readLazyFile(world.snapshot, "config.json", { signal });
  assert.ok(world.content.get("config.json")?.equals(read));
});
