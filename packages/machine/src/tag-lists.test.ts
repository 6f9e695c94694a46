/** A registry that lists no tags, too few or old ones: nothing is decided by what such a list lacks. */
import assert from "node:assert/strict";
import type { ServerResponse } from "node:http";
import { describe, it } from "node:test";
import { claimTag, hibernateTag, sealTag } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { openRegistry } from "@cocoon/oci";
import {
  refuse,
  startFakeRegistry,
  type FakeRegistry,
  type MemoryRegistryOptions,
} from "@cocoon/oci/testing";
import { MachineSnapshots } from "./machine-snapshots.ts";
import { putTestSnapshot } from "./testing/put-snapshot.ts";

const vmName = "vk-lab-atlas-0";
const unavailable = (error: unknown) => isFault(error, "unavailable");

interface World extends AsyncDisposable {
  readonly server: FakeRegistry;
  readonly snapshots: MachineSnapshots;
  /** What tag `hibernate` names, sealed by node a. */
  readonly digest: string;
  /** What every tag names, read from the registry's memory. */
  tags(): Record<string, string>;
}

async function openWorld(signal: AbortSignal, options: MemoryRegistryOptions = {}): Promise<World> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startFakeRegistry(options));
  const registry = stack.use(openRegistry({ address: server.url, retry: { attempts: 1 } }));
  const snapshots = new MachineSnapshots({ registry });
  const snapshot = { vmName, tag: hibernateTag, snapshotId: "S1", fromNode: "a" };
  const digest = await putTestSnapshot(registry, snapshot, { signal });
  await snapshots.seal(vmName, { digest, node: "a" }, { signal });
  return {
    server,
    snapshots,
    digest,
    tags: () => Object.fromEntries(server.repos.get(vmName)?.tags ?? []),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

function answerLists({ server }: World, answer: (response: ServerResponse) => void): void {
  server.hook = (request, response) => {
    const isList = (request.url ?? "").includes("/tags/list");
    if (isList) answer(response);
    return isList;
  };
}

function listOnly(world: World, tags: readonly string[]): void {
  answerLists(world, (response) => response.end(JSON.stringify({ name: vmName, tags })));
}

async function assertNothingDecided(world: World, signal: AbortSignal): Promise<void> {
  const { digest, snapshots } = world;
  const before = world.tags();
  const drop = { digest, restoredFrom: digest, namespace: "lab" };
  await assert.rejects(snapshots.findHibernated(vmName, { signal }), unavailable);
  await assert.rejects(snapshots.claim(vmName, { digest, node: "c" }, { signal }), unavailable);
  await assert.rejects(snapshots.drop(vmName, drop, { signal }), unavailable);
  await assert.rejects(snapshots.removeClaim(vmName, "b", { signal }), unavailable);
  await assert.rejects(snapshots.remove(vmName, { tag: "mine", namespace: "lab" }, { signal }), unavailable);
  assert.deepEqual(world.tags(), before, "nothing was claimed or removed");
  assert.ok(world.server.repos.get(vmName)?.manifests.has(digest));
}

describe("a registry whose tag list cannot be relied on", () => {
  for (const [status, code] of [
    [404, "NAME_UNKNOWN"],
    [405, "UNSUPPORTED"],
    [501, "UNSUPPORTED"],
  ] as const)
    it(`answers ${status}: no claim, no drop, no removal`, async ({ signal }) => {
      await using world = await openWorld(signal);
      await world.snapshots.retag(vmName, { digest: world.digest, tag: "mine" }, { signal });
      await world.snapshots.claim(vmName, { digest: world.digest, node: "b" }, { signal });
      answerLists(world, (response) => refuse(response, status, code));
      await assertNothingDecided(world, signal);
    });

  it("is empty although the snapshot exists: no claim, no drop, no removal", async ({ signal }) => {
    await using world = await openWorld(signal);
    await world.snapshots.retag(vmName, { digest: world.digest, tag: "mine" }, { signal });
    await world.snapshots.claim(vmName, { digest: world.digest, node: "b" }, { signal });
    listOnly(world, []);
    await assertNothingDecided(world, signal);
  });

  it("is older than another node's claim: the second node does not get the snapshot", async ({ signal }) => {
    await using world = await openWorld(signal);
    const { digest, snapshots } = world;
    const stale = Object.keys(world.tags());
    await snapshots.claim(vmName, { digest, node: "b" }, { signal });
    listOnly(world, stale);
    await assert.rejects(snapshots.claim(vmName, { digest, node: "c" }, { signal }), /lacks "waking-c"/);
    assert.deepEqual(world.tags(), { [hibernateTag]: digest, [claimTag("b")]: digest });
    world.server.hook = undefined;
    await snapshots.claim(vmName, { digest, node: "b" }, { signal }); // undisturbed by the attempt of c
  });

  it("is stale when a claim is repeated: the claim stays", async ({ signal }) => {
    await using world = await openWorld(signal);
    const { digest, snapshots } = world;
    const stale = Object.keys(world.tags());
    await snapshots.claim(vmName, { digest, node: "b" }, { signal });
    listOnly(world, stale);
    await assert.rejects(snapshots.claim(vmName, { digest, node: "b" }, { signal }), unavailable);
    assert.equal(world.tags()[claimTag("b")], digest);
  });

  it("breaks off between two pages: that is not its end", async ({ signal }) => {
    await using world = await openWorld(signal, { pageSize: 1 });
    world.server.hook = (request, response) => {
      const second = (request.url ?? "").includes("last=");
      if (second) refuse(response, 404, "NAME_UNKNOWN");
      return second;
    };
    await assert.rejects(world.snapshots.findHibernated(vmName, { signal }), unavailable);
    await assert.rejects(world.snapshots.list(vmName, { signal }), unavailable);
  });

  it("comes in pages of one: a claim of another node is found on the last one", async ({ signal }) => {
    await using world = await openWorld(signal, { pageSize: 1 });
    const { digest, snapshots } = world;
    await snapshots.claim(vmName, { digest, node: "z" }, { signal });
    await assert.rejects(snapshots.claim(vmName, { digest, node: "c" }, { signal }), /node z claims/);
    assert.equal(world.tags()[sealTag], undefined);
  });

  it("lacks a released snapshot: its tag is not overwritten", async ({ signal }) => {
    await using world = await openWorld(signal);
    const { server, snapshots, digest } = world;
    const at = new Date("2026-05-06T07:08:09Z");
    const first = await snapshots.release(vmName, { namespace: "lab", at }, { signal });
    assert.ok(first);
    await using registry = openRegistry({ address: server.url });
    const next = { vmName, tag: hibernateTag, snapshotId: "S2", fromNode: "a" };
    const second = await putTestSnapshot(registry, next, { signal });
    listOnly(world, [hibernateTag]);
    await assert.rejects(snapshots.release(vmName, { namespace: "lab", at }, { signal }), unavailable);
    assert.equal(world.tags()[first.tag], digest);
    assert.ok(Object.values(world.tags()).includes(second));
  });
});
