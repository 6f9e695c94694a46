import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { isFault } from "@cocoon/core";
import { count, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { openRegistry } from "../registry/registry.ts";
import type { Repository } from "../registry/repository.ts";
import { assertMachine, readMachine, makeMachine, runMachine, testEnvelope } from "../testing/machine.ts";
import {
  startFakeRegistry,
  type FakeRegistry,
  type MemoryRegistryOptions,
} from "../testing/fake-registry.ts";
import type { Progress } from "./progress.ts";
import { snapshotFormats } from "./push-snapshot.ts";
import { openSnapshotClient, type SnapshotClient } from "./snapshot-client.ts";
import { anchorSnapshot, deleteByDigest, retag } from "./stored-snapshots.ts";

interface World extends AsyncDisposable {
  readonly path: string;
  readonly server: FakeRegistry;
  repository(name: string): Repository;
  /** Another node with an empty store. */
  node(limitBytes?: number): Promise<SnapshotClient>;
}

async function openWorld(options: MemoryRegistryOptions = {}): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(await startFakeRegistry(options));
  const registry = stack.use(openRegistry({ address: server.url, retry: { baseMs: 1, maxMs: 5 } }));
  let nodes = 0;
  return {
    path,
    server,
    repository: (name) => registry.repository(name),
    node: async (limitBytes = 1 << 30) => {
      nodes += 1;
      const store = { directory: join(path, `store-${nodes}`), limitBytes };
      return stack.use(await openSnapshotClient({ store, threads: 2 }));
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("snapshots", () => {
  for (const format of snapshotFormats)
    it(`come back as they were pushed: ${format}`, async ({ signal }) => {
      await using world = await openWorld();
      const [source, client] = [
        await makeMachine(join(world.path, "vm"), seededRandom(testSeed())),
        await world.node(),
      ];
      const repository = world.repository("vk-default-demo-0");
      const seen: Progress[] = [];
      const onProgress = (progress: Progress): void => void seen.push(progress);
      const pushed = await client.push({ source, repository, tag: "hibernate", format, signal, onProgress });
      assert.equal(pushed.format, format);
      assert.equal((await repository.headManifest("hibernate", { signal }))?.digest, pushed.digest);
      for (const node of [client, await world.node()]) {
        const directory = join(world.path, `back-${seen.length}`);
        const pulled = await node.pull({
          repository,
          reference: pushed.digest,
          directory,
          name: "mine",
          signal,
          onProgress,
        });
        await assertMachine(directory, await readMachine(join(world.path, "vm")));
        assert.deepEqual(pulled.envelope, {
          ...testEnvelope,
          config: { ...testEnvelope.config, name: "mine" },
        });
        assert.deepEqual(
          JSON.parse(await readFile(join(directory, "snapshot.json"), "utf8")),
          pulled.envelope,
        );
        const { blocks, size } = await stat(join(directory, "memory"));
        assert.ok(blocks * 512 < size, "holes stay holes");
        assert.equal((await stat(join(directory, "config.json"))).mode & 0o777, 0o600);
      }
      assert.ok(seen.every((each) => each.doneBytes <= each.totalBytes));
      assert.deepEqual(
        new Set(seen.map((each) => each.phase)),
        new Set(["reading", "sending", "writing", "fetching"]),
      );
    });

  it("an unchanged machine is not sent again, and what this node knows is not fetched", async ({
    signal,
  }) => {
    await using world = await openWorld();
    const source = await makeMachine(join(world.path, "vm"), seededRandom(testSeed()));
    const [client, repository] = [await world.node(), world.repository("vm")];
    const options = { source, repository, tag: "hibernate", format: "packed", signal } as const;
    const first = await client.push(options);
    world.server.takeReceivedBytes();
    const second = await client.push(options);
    assert.ok(first.bytesSent > 1_500_000);
    assert.ok(second.bytesSent < 10_000, `${second.bytesSent} bytes`);
    assert.equal(second.bytesSent <= world.server.takeReceivedBytes(), true, "the report does not flatter");
    world.server.takeSentBytes();
    const pulled = await client.pull({
      repository,
      reference: "hibernate",
      directory: join(world.path, "back"),
      signal,
    });
    assert.equal(pulled.bytesFetched, 0);
    assert.ok(world.server.takeSentBytes() < 10_000);
  });

  it("version 2 sends zero chunks once and known chunks not at all", async ({ signal }) => {
    await using world = await openWorld();
    const random = seededRandom(testSeed());
    const source = await makeMachine(join(world.path, "vm"), random, 40 << 20);
    const [client, repository] = [await world.node(), world.repository("vm")];
    const options = { repository, tag: "hibernate", signal } as const;
    await client.push({ ...options, source });
    const again = await client.push({ ...options, source: await runMachine(join(world.path, "vm"), random) });
    assert.ok(again.bytesReused > 0);
    const manifest = JSON.parse((await repository.getManifest("hibernate", { signal })).bytes.toString()) as {
      layers: { digest: string; size: number; mediaType: string; annotations: Record<string, string> }[];
    };
    const memory = manifest.layers.filter(
      (each) => each.annotations["org.opencontainers.image.title"] === "memory",
    );
    assert.equal(memory.length, 40, "cut at every mebibyte of the guest, holes included");
    assert.equal(memory[0]?.mediaType, "application/octet-stream+zstd");
    const content = await readFile(join(world.path, "vm", "memory"));
    const zero = memory.filter((_, index) =>
      content.subarray(index << 20, (index + 1) << 20).every((byte) => byte === 0),
    );
    assert.ok(
      zero.every((each) => each.size < 100),
      "a chunk of zeros is a tiny blob",
    );
    assert.ok(new Set(zero.map((each) => each.digest)).size <= 1, "and all of them are the same one");
  });

  it("a clone shares its base's packs by mounting them, also when it was pulled on another node", async ({
    signal,
  }) => {
    await using world = await openWorld();
    const random = seededRandom(testSeed());
    const golden = world.repository("golden");
    const source = await makeMachine(join(world.path, "vm"), random);
    const { bytesSent } = await (
      await world.node()
    ).push({ source, repository: golden, tag: "latest", format: "packed", signal });
    const elsewhere = await world.node();
    const directory = join(world.path, "clone");
    await elsewhere.pull({ repository: golden, reference: "latest", directory, signal });
    const clone = world.repository("vk-ns-demo-1");
    const changed = await runMachine(directory, random);
    const base = [{ repository: golden, reference: "latest" }];
    const pushed = await elsewhere.push({
      source: changed,
      repository: clone,
      tag: "hibernate",
      format: "packed",
      base,
      signal,
    });
    assert.ok(pushed.bytesSent < bytesSent / 4, `${pushed.bytesSent} of ${bytesSent}`);
    await golden.deleteManifest("latest", { signal });
    world.server.repos.get("golden")?.manifests.clear();
    world.server.collectGarbage();
    const back = join(world.path, "back");
    await (await world.node()).pull({ repository: clone, reference: "hibernate", directory: back, signal });
    await assertMachine(back, await readMachine(directory));
  });

  it("without mounting, the packs come from this node's own copy", async ({ signal }) => {
    await using world = await openWorld({ mount: false });
    const source = await makeMachine(join(world.path, "vm"), seededRandom(testSeed()));
    const client = await world.node();
    await client.push({
      source,
      repository: world.repository("golden"),
      tag: "latest",
      format: "packed",
      signal,
    });
    const base = [{ repository: world.repository("golden"), reference: "latest" }];
    const repository = world.repository("clone");
    await client.push({ source, repository, tag: "hibernate", format: "packed", base, signal });
    world.server.repos.delete("golden");
    await client.verify({ repository, reference: "hibernate", workDirectory: world.path, signal });
  });

  it("packs that the registry lost are replaced, whatever the base says", async ({ signal }) => {
    await using world = await openWorld();
    const source = await makeMachine(join(world.path, "vm"), seededRandom(testSeed()));
    const repository = world.repository("vm");
    await (await world.node()).push({ source, repository, tag: "hibernate", format: "packed", signal });
    const blobs = world.server.repos.get("vm")?.blobs;
    for (const [digest, bytes] of blobs ?? []) if (bytes.length > 100_000) blobs?.delete(digest);
    await (await world.node()).push({ source, repository, tag: "hibernate", format: "packed", signal });
    await (
      await world.node()
    ).verify({ repository, reference: "hibernate", workDirectory: world.path, signal });
  });

  it("an anchor keeps the content for the next push, and cannot be started", async ({ signal }) => {
    await using world = await openWorld();
    const random = seededRandom(testSeed());
    const source = await makeMachine(join(world.path, "vm"), random);
    const [client, repository] = [await world.node(), world.repository("vm")];
    const options = { repository, format: "packed", signal } as const;
    const first = await client.push({ ...options, source, tag: "hibernate" });
    const anchor = await anchorSnapshot({ repository, digest: first.digest, tag: "slept", signal });
    await deleteByDigest(repository, first.digest, { signal });
    world.server.collectGarbage();
    assert.equal((await repository.headManifest("slept", { signal }))?.digest, anchor);
    const directory = join(world.path, "no");
    await assert.rejects(client.pull({ repository, reference: "slept", directory, signal }), (error) =>
      isFault(error, "invalid"),
    );
    const base = [{ repository, reference: "slept" }];
    const changed = await runMachine(join(world.path, "vm"), random);
    const second = await client.push({ ...options, source: changed, tag: "hibernate", base });
    assert.ok(second.bytesSent < first.bytesSent / 4);
    await client.verify({ repository, reference: second.digest, workDirectory: world.path, signal });
  });

  it("any history of sleeping, cloning, deleting and collecting keeps every snapshot that is left", async ({
    signal,
  }) => {
    const random = seededRandom(testSeed());
    await using world = await openWorld();
    const nodes = [await world.node(), await world.node(3_000_000)];
    const kept = new Map<string, { repository: Repository; content: Map<string, Buffer> }>();
    const vm = join(world.path, "vm");
    let source = await makeMachine(vm, random, 3 << 20);
    for (let round = 0; round < count({ small: 10, full: 120 }); round += 1) {
      const client = nodes[Math.floor(random() * nodes.length)] ?? (await world.node());
      const repository = world.repository(`vm-${Math.floor(random() * 2)}`);
      const others = [...kept].map(([reference, each]) => ({ repository: each.repository, reference }));
      const base = random() < 0.7 ? others.slice(-1) : [];
      const { digest } = await client.push({
        source,
        repository,
        tag: "hibernate",
        format: "packed",
        base,
        signal,
      });
      kept.set(digest, { repository, content: await readMachine(vm) });
      if (random() < 0.4) {
        const [victim, entry] = [...kept][Math.floor(random() * kept.size)] ?? [];
        if (victim && entry) await deleteByDigest(entry.repository, victim, { signal });
        if (victim) kept.delete(victim);
        world.server.collectGarbage();
      }
      const [reference, entry] = [...kept][Math.floor(random() * kept.size)] ?? [];
      if (reference && entry) {
        const directory = join(world.path, `back-${round}`);
        const similar = random() < 0.5 ? [vm] : [];
        await client.pull({ repository: entry.repository, reference, directory, similar, signal });
        await assertMachine(directory, entry.content);
      }
      source = await runMachine(vm, random);
    }
    world.server.collectGarbage();
    for (const [reference, { repository, content }] of kept) {
      const directory = join(world.path, `last-${reference.slice(7, 20)}`);
      await (await world.node()).pull({ repository, reference, directory, signal });
      await assertMachine(directory, content);
    }
  });
});

describe("pushing", () => {
  it("moves the tag last: a push that fails anywhere leaves the old snapshot in its place", async ({
    signal,
  }) => {
    const random = seededRandom(testSeed());
    for (const format of snapshotFormats) {
      await using world = await openWorld();
      const [client, repository] = [await world.node(), world.repository("vm")];
      const source = await makeMachine(join(world.path, "vm"), random, 2 << 20);
      const before = await client.push({ source, repository, tag: "hibernate", format, signal });
      const content = await readMachine(join(world.path, "vm"));
      const changed = await runMachine(join(world.path, "vm"), random);
      for (let failing = 0; ; failing += 1 + Math.floor(random() * count({ small: 5, full: 1 }))) {
        let writes = 0;
        world.server.hook = (request, response) => {
          if (request.method === "HEAD" || request.method === "GET") return false;
          writes += 1;
          if (writes <= failing) return false;
          response.writeHead(507).end();
          return true;
        };
        const outcome = await client
          .push({ source: changed, repository, tag: "hibernate", format, signal })
          .catch((error: unknown) => error);
        world.server.hook = undefined;
        if (!isFault(outcome)) break;
        assert.equal((await repository.headManifest("hibernate", { signal }))?.digest, before.digest);
        world.server.collectGarbage();
      }
      const directory = join(world.path, "old");
      await (await world.node()).pull({ repository, reference: before.digest, directory, signal });
      await assertMachine(directory, content);
      await client.verify({ repository, reference: "hibernate", workDirectory: world.path, signal });
    }
  });

  it("a source that changes under our hands is an error, not a wrong snapshot", async ({ signal }) => {
    await using world = await openWorld();
    const [client, repository] = [await world.node(), world.repository("vm")];
    const source = await makeMachine(join(world.path, "vm"), seededRandom(testSeed()));
    for (const format of snapshotFormats) {
      world.server.hook = async (request) => {
        if (request.method !== "POST") return false;
        world.server.hook = undefined;
        await writeFile(join(world.path, "vm", "overlay.qcow2"), Buffer.alloc(1_500_001, format));
        return false;
      };
      const outcome = await client
        .push({ source, repository, tag: "t", format, signal })
        .catch((error: unknown) => error);
      if (isFault(outcome)) continue;
      const directory = join(world.path, `back-${format}`);
      await client.pull({ repository, reference: "t", directory, signal });
      await assertMachine(directory, await readMachine(join(world.path, "vm")));
    }
  });

  it("refuses what cannot be a snapshot", async ({ signal }) => {
    await using world = await openWorld();
    const [client, repository] = [await world.node(), world.repository("vm")];
    const source = await makeMachine(join(world.path, "vm"), seededRandom(1));
    const invalid = (error: unknown): boolean => isFault(error, "invalid");
    await assert.rejects(client.push({ source, repository, tag: "no tag", signal }), invalid);
    await assert.rejects(
      client.push({ source: { ...source, envelope: { version: 2 } }, repository, tag: "t", signal }),
      invalid,
    );
    const [file] = source.files;
    assert.ok(file);
    for (const files of [
      [file, file],
      [{ ...file, name: "../x" }],
      [{ ...file, name: "snapshot.json" }],
      [{ ...file, path: world.path }],
    ])
      await assert.rejects(
        client.push({ source: { ...source, files }, repository, tag: "t", signal }),
        invalid,
      );
    assert.equal(await repository.headManifest("t", { signal }), undefined);
  });

  it("what is known about holes changes nothing", async ({ signal }) => {
    await using world = await openWorld();
    await mkdir(join(world.path, "vm"));
    const path = join(world.path, "vm", "memory");
    const content = Buffer.alloc(4 << 20);
    content.fill("some data", 1 << 20, (1 << 20) + 100_000);
    await writeFile(path, content);
    const [client, repository] = [await world.node(), world.repository("vm")];
    for (const format of snapshotFormats) {
      const files = [{ name: "memory", path, dataRanges: [{ offset: 1 << 20, length: 100_000 }] }];
      await client.push({
        source: { envelope: testEnvelope, files },
        repository,
        tag: format,
        format,
        signal,
      });
      const directory = join(world.path, format);
      await client.pull({ repository, reference: format, directory, signal });
      assert.ok((await readFile(join(directory, "memory"))).equals(content), format);
      assert.ok((await stat(join(directory, "memory"))).blocks * 512 < 1 << 20, format);
    }
  });

  it("what is pinned for a machine stays on the node", async ({ signal }) => {
    await using world = await openWorld();
    const random = seededRandom(testSeed());
    const [client, repository] = [await world.node(100_000), world.repository("vm")];
    const source = await makeMachine(join(world.path, "vm"), random);
    await client.push({ source, repository, tag: "hibernate", format: "packed", pinFor: "vm", signal });
    const other = await makeMachine(join(world.path, "other"), random);
    await client.push({
      source: other,
      repository: world.repository("other"),
      tag: "hibernate",
      format: "packed",
      signal,
    });
    const directory = join(world.path, "back");
    const pulled = await client.pull({ repository, reference: "hibernate", directory, signal });
    assert.equal(pulled.bytesFetched, 0);
    assert.deepEqual(client.store?.owners(), ["vm"]);
  });
});

describe("tags and deletion", () => {
  it("retag keeps the digest and the old tag; deletion may be repeated", async ({ signal }) => {
    await using world = await openWorld();
    const [client, repository] = [await world.node(), world.repository("vm")];
    const source = await makeMachine(join(world.path, "vm"), seededRandom(1));
    const { digest } = await client.push({ source, repository, tag: "hibernate", signal });
    assert.equal(await retag({ repository, from: digest, to: "released-20260101T000000Z", signal }), digest);
    assert.deepEqual(await Array.fromAsync(repository.tags({ signal })), [
      "hibernate",
      "released-20260101T000000Z",
    ]);
    assert.equal(await deleteByDigest(repository, digest, { signal }), true);
    assert.equal(await deleteByDigest(repository, digest, { signal }), false);
    await assert.rejects(deleteByDigest(repository, "hibernate", { signal }), (error) =>
      isFault(error, "invalid"),
    );
  });

  it("a pull that is aborted leaves nothing behind", async ({ signal }) => {
    await using world = await openWorld();
    const [client, repository] = [await world.node(), world.repository("vm")];
    const source = await makeMachine(join(world.path, "vm"), seededRandom(1));
    await client.push({ source, repository, tag: "t", format: "packed", signal });
    const stop = new AbortController();
    world.server.hook = (request) => {
      if ((request.url ?? "").includes("/blobs/")) stop.abort(new Error("enough"));
      return false;
    };
    const target = join(world.path, "target");
    await mkdir(target);
    const pull = (await world.node()).pull({
      repository,
      reference: "t",
      directory: join(target, "back"),
      signal: stop.signal,
    });
    await assert.rejects(pull, /enough/);
    assert.deepEqual(await readdir(target), []);
  });
});
