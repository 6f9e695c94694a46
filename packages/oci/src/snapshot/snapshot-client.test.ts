import assert from "node:assert/strict";
import { mkdir, open, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { openRegistry } from "../registry/registry.ts";
import type { Repository } from "../registry/repository.ts";
import { startMemoryRegistry, type MemoryRegistry } from "../testing/memory-registry.ts";
import { snapshotFormats, type SnapshotSource } from "./push-snapshot.ts";
import { openSnapshotClient, type SnapshotClient } from "./snapshot-client.ts";
import { filesOf } from "./source.ts";

const envelope = {
  config: {
    id: "ABCDEFGH",
    name: "golden",
    cpu: 2,
    memory: 512 << 20,
    hypervisor: "qemu",
    queue_size: 256,
    qemu: { v: 7 },
  },
  version: 1,
};

interface Bench extends AsyncDisposable {
  readonly path: string;
  readonly server: MemoryRegistry;
  readonly client: SnapshotClient;
  repository(name: string): Repository;
}

async function bench(): Promise<Bench> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(await startMemoryRegistry());
  const registry = stack.use(openRegistry({ address: server.url }));
  const store = { directory: join(path, "store"), limitBytes: 1 << 30 };
  const client = stack.use(await openSnapshotClient({ store, threads: 2 }));
  return {
    path,
    server,
    client,
    repository: (name) => registry.repository(name),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** A small machine: memory with holes, a disk without, some text. */
async function machine(directory: string, random: () => number): Promise<SnapshotSource> {
  await mkdir(directory, { recursive: true });
  const memory = await open(join(directory, "memory"), "w");
  await memory.truncate(6 << 20);
  for (let at = 0; at < 6 << 20; at += 256 << 10)
    if (random() < 0.4) await memory.write(content(random, 100_000), 0, 100_000, at);
  await memory.close();
  await writeFile(join(directory, "overlay.qcow2"), noise(random, 2_500_001));
  await writeFile(join(directory, "config.json"), '{"machine":"pc"}');
  await writeFile(join(directory, "empty"), "");
  return { envelope, files: await filesOf(directory) };
}

function content(random: () => number, length: number): Buffer {
  return random() < 0.5 ? noise(random, length) : Buffer.alloc(length, `line ${random()} of some log\n`);
}

function noise(random: () => number, length: number): Buffer {
  return Buffer.from(Array.from({ length }, () => Math.floor(random() * 256)));
}

async function assertSame(left: string, right: string): Promise<void> {
  const names = (await filesOf(left)).map((each) => each.name);
  assert.deepEqual(
    (await filesOf(right)).map((each) => each.name),
    names,
  );
  for (const name of names)
    assert.ok(
      (await readFile(join(left, name))).equals(await readFile(join(right, name))),
      `${name} differs`,
    );
}

describe("snapshots", () => {
  for (const format of snapshotFormats) {
    it(`come back as they were pushed: ${format}`, async ({ signal }) => {
      await using b = await bench();
      const source = await machine(join(b.path, "vm"), seededRandom(testSeed()));
      const repository = b.repository("vk-default-demo-0");
      const pushed = await b.client.push({ source, repository, tag: "hibernate", format, signal });
      assert.equal(pushed.format, format);
      assert.equal((await repository.headManifest("hibernate", { signal }))?.digest, pushed.digest);
      const directory = join(b.path, "back");
      const pulled = await b.client.pull({
        repository,
        reference: pushed.digest,
        directory,
        name: "mine",
        signal,
      });
      await assertSame(join(b.path, "vm"), directory);
      assert.deepEqual(pulled.envelope, { ...envelope, config: { ...envelope.config, name: "mine" } });
      assert.deepEqual(JSON.parse(await readFile(join(directory, "snapshot.json"), "utf8")), pulled.envelope);
      const { blocks, size } = await stat(join(directory, "memory"));
      assert.ok(blocks * 512 < size, "holes stay holes");
    });
  }

  it("sends nothing twice", async ({ signal }) => {
    await using b = await bench();
    const source = await machine(join(b.path, "vm"), seededRandom(testSeed()));
    const repository = b.repository("vm");
    const first = await b.client.push({ source, repository, tag: "hibernate", format: "packed", signal });
    const second = await b.client.push({ source, repository, tag: "hibernate", format: "packed", signal });
    assert.ok(first.bytesSent > 2_000_000);
    assert.ok(second.bytesSent < 20_000, `${second.bytesSent} bytes`);
  });
});
