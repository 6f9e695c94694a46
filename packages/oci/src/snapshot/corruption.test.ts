/** A flipped bit anywhere is an error or is repaired from elsewhere; it never becomes part of a machine. */
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { count, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { openRegistry } from "../registry/registry.ts";
import type { Repository } from "../registry/repository.ts";
import { assertMachine, readMachine, makeMachine, runMachine } from "../testing/machine.ts";
import { startFakeRegistry, type FakeRegistry } from "../testing/fake-registry.ts";
import { snapshotFormats, type SnapshotFormat } from "./push-snapshot.ts";
import { openSnapshotClient, type SnapshotClient } from "./snapshot-client.ts";

interface World extends AsyncDisposable {
  readonly path: string;
  readonly server: FakeRegistry;
  readonly repository: Repository;
  /** Has no store. */
  readonly client: SnapshotClient;
  readonly random: () => number;
  readonly content: Map<string, Buffer>;
}

/** A repository with a snapshot that builds on an earlier one, so that every kind of blob is there. */
async function openWorld(format: SnapshotFormat, signal: AbortSignal): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(await startFakeRegistry());
  const registry = stack.use(
    openRegistry({ address: server.url, retry: { attempts: 2, baseMs: 1, maxMs: 2 } }),
  );
  const client = stack.use(await openSnapshotClient({ threads: 2 }));
  const random = seededRandom(testSeed());
  const repository = registry.repository("vm");
  await using first = await openSnapshotClient({
    threads: 2,
    store: { directory: join(path, "home"), limitBytes: 1 << 30 },
  });
  const vm = join(path, "vm");
  const options = { repository, tag: "hibernate", format, signal } as const;
  await first.push({ ...options, source: await makeMachine(vm, random, 2 << 20) });
  await first.push({ ...options, source: await runMachine(vm, random) });
  const content = await readMachine(vm);
  return {
    path,
    server,
    repository,
    client,
    random,
    content,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function flip(bytes: Buffer, random: () => number): Buffer {
  const copy = Buffer.from(bytes);
  const bit = Math.floor(random() * copy.length * 8);
  copy[bit >> 3] = (copy[bit >> 3] ?? 0) ^ (1 << (bit & 7));
  return copy;
}

describe("in the registry", () => {
  for (const format of snapshotFormats)
    it(`every object that a ${format} snapshot needs is checked`, async ({ signal }) => {
      await using world = await openWorld(format, signal);
      const { repository, client, random } = world;
      const stored = world.server.repos.get("vm");
      const digest = (await repository.headManifest("hibernate", { signal }))?.digest ?? "";
      const manifest = stored?.manifests.get(digest);
      assert.ok(stored && manifest);
      const needed = new Set(manifest.bytes.toString().match(/sha256:[0-9a-f]{64}/g));
      let number = 0;
      const refused = async (what: string, reference: string, code?: "damaged"): Promise<void> => {
        number += 1;
        const directory = join(world.path, `back-${number}`);
        await assert.rejects(
          client.pull({ repository, reference, directory, signal }),
          (error) => isFault(error) && error.code === (code ?? error.code),
          what,
        );
        assert.ok(!(await readdir(world.path)).some((name) => name.includes("back-")), "nothing is left");
      };
      for (const blob of needed) {
        const bytes = stored.blobs.get(blob);
        assert.ok(bytes, `${blob} is listed and stored`);
        for (let time = 0; time < count({ small: 2, full: 40 }); time += 1) {
          if (bytes.length === 0) continue;
          stored.blobs.set(blob, flip(bytes, random));
          await refused(`${blob} of ${bytes.length} bytes`, "hibernate");
        }
        stored.blobs.set(blob, bytes.subarray(0, -1));
        if (bytes.length > 0) await refused(`${blob} cut short`, "hibernate");
        stored.blobs.delete(blob);
        await refused(`${blob} gone`, "hibernate", "damaged");
        stored.blobs.set(blob, bytes);
      }
      for (let time = 0; time < count({ small: 20, full: 500 }); time += 1) {
        stored.manifests.set(digest, { ...manifest, bytes: flip(manifest.bytes, random) });
        await refused("manifest by tag", "hibernate");
        await refused("manifest by digest", digest);
      }
      stored.manifests.set(digest, manifest);
      const directory = join(world.path, "good");
      await client.pull({ repository, reference: digest, directory, signal });
      await assertMachine(directory, world.content);
    });

  it("a manifest that was made to fit is still checked against its index and config", async ({ signal }) => {
    await using world = await openWorld("packed", signal);
    const { repository, client } = world;
    const { bytes, mediaType } = await repository.getManifest("hibernate", { signal });
    interface Wire {
      artifactType: string;
      layers: { mediaType: string; digest: string; size: number }[];
    }
    const changes: readonly [string, (manifest: Wire) => void][] = [
      ["a pack not listed", (manifest) => void manifest.layers.splice(1, 1)],
      ["a pack of another size", (manifest) => void (manifest.layers[1] && (manifest.layers[1].size += 1))],
      ["no index", (manifest) => void manifest.layers.splice(0, 1)],
      [
        "another version",
        (manifest) => void (manifest.artifactType = manifest.artifactType.replace("packed.v1", "v2")),
      ],
      [
        "a stranger among the packs",
        (manifest) =>
          void manifest.layers.push({ mediaType: "x/y", digest: `sha256:${"0".repeat(64)}`, size: 1 }),
      ],
      ["nothing", (manifest) => void (manifest.layers = [])],
    ];
    for (const [what, change] of changes) {
      const manifest = JSON.parse(bytes.toString()) as Wire;
      change(manifest);
      await repository.putManifest(
        "forged",
        { bytes: Buffer.from(JSON.stringify(manifest)), mediaType },
        { signal },
      );
      const directory = join(world.path, "back");
      await assert.rejects(
        client.pull({ repository, reference: "forged", directory, signal }),
        (error) => isFault(error, "invalid"),
        what,
      );
    }
  });
});

describe("on the node", () => {
  it("damaged packs of the store are found, forgotten and fetched again", async ({ signal }) => {
    await using world = await openWorld("packed", signal);
    const { repository, random } = world;
    const directory = join(world.path, "store");
    await using client = await openSnapshotClient({ threads: 2, store: { directory, limitBytes: 1 << 30 } });
    const pull = async (name: string): Promise<number> => {
      const target = join(world.path, name);
      const { bytesFetched } = await client.pull({
        repository,
        reference: "hibernate",
        directory: target,
        signal,
      });
      await assertMachine(target, world.content);
      return bytesFetched;
    };
    assert.ok((await pull("first")) > 0);
    assert.equal(await pull("again"), 0);
    for (let round = 0; round < count({ small: 8, full: 100 }); round += 1) {
      for (const path of await packFiles(directory))
        if (random() < 0.5) await writeFile(path, flip(await readFile(path), random));
      await pull(`round-${round}`);
    }
    for (const path of await packFiles(directory)) await writeFile(path, "");
    await pull("emptied");
    assert.equal(await pull("healed"), 0);
  });

  it("a damaged database is never believed", async ({ signal }) => {
    await using world = await openWorld("packed", signal);
    const { repository, random } = world;
    const directory = join(world.path, "store");
    const store = { directory, limitBytes: 1 << 30 };
    for (let round = 0; round < count({ small: 6, full: 100 }); round += 1) {
      await using client = await openSnapshotClient({ threads: 2, store });
      const target = join(world.path, `round-${round}`);
      await client.pull({ repository, reference: "hibernate", directory: target, signal });
      await assertMachine(target, world.content);
      await client[Symbol.asyncDispose]();
      const path = join(directory, "store.db");
      let bytes: Buffer = await readFile(path);
      for (let bits = 0; bits < 40; bits += 1) bytes = flip(bytes, random);
      await writeFile(path, bytes);
    }
  });

  it("similar files are used only where they are equal", async ({ signal }) => {
    await using world = await openWorld("packed", signal);
    const { repository, random, client } = world;
    const similar = join(world.path, "vm");
    const { bytesFetched } = await client.pull({
      repository,
      reference: "hibernate",
      directory: join(world.path, "equal"),
      similar: [similar],
      signal,
    });
    assert.equal(bytesFetched, 0);
    for (const name of ["memory", "overlay.qcow2"]) {
      let bytes: Buffer = await readFile(join(similar, name));
      for (let bits = 0; bits < 5; bits += 1) bytes = flip(bytes, random);
      await writeFile(join(similar, name), name === "memory" ? bytes : bytes.subarray(0, 700_000));
    }
    const directory = join(world.path, "back");
    const pulled = await client.pull({
      repository,
      reference: "hibernate",
      directory,
      similar: [similar, world.path],
      signal,
    });
    await assertMachine(directory, world.content);
    assert.ok(pulled.bytesReused > 0);
  });
});

async function packFiles(directory: string): Promise<string[]> {
  const entries = await readdir(join(directory, "packs"), { recursive: true, withFileTypes: true });
  return entries.filter((each) => each.isFile()).map((each) => join(each.parentPath, each.name));
}
