/** Snapshots through our own registry, with tokens, a file system, real garbage collection and another client. */
import assert from "node:assert/strict";
import { execFile, fork } from "node:child_process";
import { once } from "node:events";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "node:test";
import { promisify } from "node:util";
import {
  deleteByDigest,
  fixedCredential,
  importArchive,
  openRegistry,
  openSnapshotClient,
  snapshotFormats,
  type Repository,
  type SnapshotClient,
} from "@cocoon/oci";
import { assertMachine, readMachine, makeMachine, runMachine } from "@cocoon/oci/testing";
import { startRegistry, type RunningRegistry } from "@cocoon/registry";
import { count, killChild, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";

interface World extends AsyncDisposable {
  readonly path: string;
  readonly server: RunningRegistry;
  readonly password: string;
  repository(name: string): Repository;
  node(name: string): Promise<SnapshotClient>;
  /** Takes everything that nothing refers to. */
  collect(signal: AbortSignal): Promise<number>;
}

async function openWorld(): Promise<World> {
  const stack = new AsyncDisposableStack();
  const { path } = stack.use(await temporaryDirectory());
  const server = stack.use(
    await startRegistry({ storage: { kind: "filesystem", root: join(path, "registry") } }),
  );
  const password = await server.createToken({ name: "test", scopes: ["repository:**:pull,push,delete"] });
  const credentials = fixedCredential({ kind: "basic", username: "test", password });
  const registry = stack.use(openRegistry({ address: server.url, credentials }));
  return {
    path,
    server,
    password,
    repository: (name) => registry.repository(name),
    node: async (name) =>
      stack.use(
        await openSnapshotClient({ threads: 2, store: { directory: join(path, name), limitBytes: 1 << 30 } }),
      ),
    collect: async (signal) => {
      const report = await server.collectGarbage({ signal, leaseMs: 0, untaggedMs: 0 });
      assert.equal(report.skipped, 0);
      return report.blobs;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

describe("snapshots in our registry", () => {
  for (const format of snapshotFormats)
    it(`sleep on one node and wake on another: ${format}`, async ({ signal }) => {
      await using world = await openWorld();
      const random = seededRandom(testSeed());
      const repository = world.repository("vk-default-demo-0");
      const [here, there] = [await world.node("here"), await world.node("there")];
      const vm = join(world.path, "vm");
      let source = await makeMachine(vm, random);
      for (let night = 0; night < 3; night += 1) {
        const { digest } = await here.push({ source, repository, tag: "hibernate", format, signal });
        assert.equal((await repository.headManifest("hibernate", { signal }))?.digest, digest);
        await world.collect(signal);
        const directory = join(world.path, `woken-${night}`);
        await there.pull({ repository, reference: digest, directory, signal });
        await assertMachine(directory, await readMachine(vm));
        source = await runMachine(vm, random);
      }
    });

  it("deleting snapshots and collecting garbage never breaks another snapshot, and leaves nothing in the end", async ({
    signal,
  }) => {
    await using world = await openWorld();
    const random = seededRandom(testSeed());
    const node = await world.node("node");
    const vm = join(world.path, "vm");
    let source = await makeMachine(vm, random, 3 << 20);
    const kept = new Map<string, { repository: Repository; content: Map<string, Buffer> }>();
    for (let round = 0; round < count({ small: 8, full: 80 }); round += 1) {
      const repository = world.repository(`vm-${round % 2}`);
      const base = [...kept]
        .slice(-1)
        .map(([reference, each]) => ({ repository: each.repository, reference }));
      const { digest } = await node.push({
        source,
        repository,
        tag: `t${round}`,
        format: "packed",
        base,
        signal,
      });
      kept.set(digest, { repository, content: await readMachine(vm) });
      const [victim, entry] = [...kept][Math.floor(random() * kept.size)] ?? [];
      if (victim && entry && random() < 0.6) {
        await deleteByDigest(entry.repository, victim, { signal });
        kept.delete(victim);
      }
      await world.collect(signal);
      source = await runMachine(vm, random);
    }
    for (const [reference, { repository, content }] of kept) {
      const directory = join(world.path, `back-${reference.slice(7, 19)}`);
      await (
        await world.node(`fresh-${reference.slice(7, 19)}`)
      ).pull({ repository, reference, directory, signal });
      await assertMachine(directory, content);
      await deleteByDigest(repository, reference, { signal });
    }
    await world.collect(signal);
    const left = await readdir(join(world.path, "registry", "blobs"), {
      recursive: true,
      withFileTypes: true,
    });
    assert.deepEqual(
      left.filter((each) => each.isFile()).map((each) => each.name),
      [],
    );
  });

  it("a pusher that is killed anywhere loses nothing, and its successor sends only the rest", async ({
    signal,
  }) => {
    await using world = await openWorld();
    const random = seededRandom(testSeed());
    const repository = world.repository("vm");
    const vm = join(world.path, "vm");
    const node = await world.node("node");
    let last = await node.push({
      source: await makeMachine(vm, random, 24 << 20),
      repository,
      tag: "hibernate",
      format: "packed",
      signal,
    });
    for (let round = 0; round < count({ small: 4, full: 60 }); round += 1) {
      const before = await readMachine(vm);
      await runMachine(vm, random);
      const child = fork(
        join(import.meta.dirname, "../../../packages/oci/src/testing/push-worker.ts"),
        [vm, world.server.url, join(world.path, "node")],
        {
          env: { ...process.env, TEST_PASSWORD: world.password },
          execArgv: [], // with the runner's own options it would be run as a test
          stdio: ["ignore", "ignore", "inherit", "ipc"],
        },
      );
      await once(child, "message"); // it has begun
      await new Promise((resolve) => setTimeout(resolve, random() * 400));
      await killChild(child);
      await world.collect(signal);
      const now = await repository.headManifest("hibernate", { signal });
      const directory = join(world.path, `back-${round}`);
      await (
        await world.node(`n-${round}`)
      ).pull({ repository, reference: now?.digest ?? "hibernate", directory, signal });
      await assertMachine(directory, now?.digest === last.digest ? before : await readMachine(vm));
      last = await node.push({
        source: await runMachine(vm, random),
        repository,
        tag: "hibernate",
        format: "packed",
        signal,
      });
    }
  });

  it("a tool that knows nothing of registries downloads it as an archive", async ({ signal }) => {
    await using world = await openWorld();
    const node = await world.node("node");
    const random = seededRandom(testSeed());
    const vm = join(world.path, "vm");
    for (const format of snapshotFormats) {
      const repository = world.repository(`team/${format}`);
      const options = { repository, tag: "latest", format, signal } as const;
      await node.push({ ...options, source: await makeMachine(vm, random, 3 << 20) });
      await node.push({ ...options, source: await runMachine(vm, random) });
      const url = new URL(`/dl/team/${format}`, world.server.url);
      const answer = await fetch(url, { headers: { authorization: `Bearer ${world.password}` } });
      assert.deepEqual([answer.status, answer.headers.get("content-type")], [200, "application/x-tar"]);
      assert.ok(answer.body);
      const directory = join(world.path, `dl-${format}`);
      const envelope = await importArchive({ archive: answer.body, directory, signal });
      assert.equal(envelope.config.name, `team/${format}`);
      await assertMachine(directory, await readMachine(vm));
    }
  });

  it("another client copies a snapshot as it is", async ({ signal }) => {
    await using world = await openWorld();
    const node = await world.node("node");
    const source = await makeMachine(join(world.path, "vm"), seededRandom(testSeed()), 3 << 20);
    const auth = Buffer.from(`test:${world.password}`).toString("base64");
    const authFile = join(world.path, "auth.json");
    await writeFile(authFile, JSON.stringify({ auths: { [`127.0.0.1:${world.server.port}`]: { auth } } }));
    for (const format of snapshotFormats) {
      const { digest } = await node.push({
        source,
        repository: world.repository("a"),
        tag: format,
        format,
        signal,
      });
      const reference = (name: string): string => `docker://127.0.0.1:${world.server.port}/${name}:${format}`;
      await promisify(execFile)(
        "skopeo",
        [
          "--insecure-policy",
          "copy",
          "--src-tls-verify=false",
          "--dest-tls-verify=false",
          reference("a"),
          reference("b"),
        ],
        { env: { ...process.env, REGISTRY_AUTH_FILE: authFile, TMPDIR: world.path } },
      );
      const copy = world.repository("b");
      assert.equal((await copy.headManifest(format, { signal }))?.digest, digest);
      const directory = join(world.path, `copy-${format}`);
      await (
        await world.node(`fresh-${format}`)
      ).pull({ repository: copy, reference: format, directory, signal });
      await assertMachine(directory, await readMachine(join(world.path, "vm")));
    }
  });
});
