/** The suite against the fake registry, and what the machine's snapshots do when the registry misbehaves. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { describe, it } from "node:test";
import { anchorTag, hibernateTag, sealTag } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { openRegistry, openSnapshotClient, type Registry } from "@cocoon/oci";
import { makeMachine, refuse, runMachine, startFakeRegistry, type FakeRegistry } from "@cocoon/oci/testing";
import { seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { MachineSnapshots } from "./machine-snapshots.ts";
import { putTestSnapshot } from "./testing/put-snapshot.ts";
import { machineSnapshotsSuite } from "./testing/snapshots-suite.ts";

interface World extends AsyncDisposable {
  readonly server: FakeRegistry;
  readonly registry: Registry;
  readonly snapshots: MachineSnapshots;
}

async function openWorld(): Promise<World> {
  const stack = new AsyncDisposableStack();
  const server = stack.use(await startFakeRegistry());
  const registry = stack.use(openRegistry({ address: server.url, retry: { attempts: 1 } }));
  const snapshots = new MachineSnapshots({ registry });
  return { server, registry, snapshots, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

machineSnapshotsSuite("fake registry", openWorld);

machineSnapshotsSuite("fake registry that cannot remove single tags", async () => {
  const world = await openWorld();
  world.server.hook = (request, response) => {
    const byTag = request.method === "DELETE" && !(request.url ?? "").includes("sha256:");
    const mine = /\/(mine|hibernate)$/.test(request.url ?? ""); // a digest with two lasting names needs it
    if (byTag && !mine) refuse(response, 405, "UNSUPPORTED");
    return byTag && !mine;
  };
  return world;
});

const vmName = "vk-lab-atlas-0";

describe("a hibernated snapshot", () => {
  for (const [what, answer] of [
    ["a 404 of a proxy", { status: 404, body: "<h1>no such page</h1>" }],
    ["a 404 in JSON that is no OCI error", { status: 404, body: '{"error":"no route"}' }],
    ["an empty 404", { status: 404, body: "" }],
    ["a 503", { status: 503, body: "" }],
  ] as const)
    it(`is not absent after ${what}`, async ({ signal }) => {
      await using world = await openWorld();
      await putTestSnapshot(world.registry, { vmName, tag: hibernateTag, snapshotId: "S1" }, { signal });
      await world.snapshots.findHibernated("vk-lab-other-0", { signal }); // the registry is known to be one
      world.server.hook = (request, response) => {
        if (!/manifests|tags/.test(request.url ?? "")) return false;
        response.writeHead(answer.status).end(answer.body);
        return true;
      };
      const unavailable = (error: unknown) => isFault(error, "unavailable");
      await assert.rejects(world.snapshots.findHibernated(vmName, { signal }), unavailable);
      await assert.rejects(world.snapshots.findHibernatedDigest(vmName, { signal }), unavailable);
      await assert.rejects(world.snapshots.list(vmName, { signal }), unavailable);
    });

  it("is not absent when the registry stops answering at /v2/", async ({ signal }) => {
    await using world = await openWorld();
    assert.equal(await world.snapshots.findHibernated(vmName, { signal }), undefined);
    world.server.hook = (request, response) => {
      if (request.url !== "/v2/") return false;
      response.writeHead(502).end();
      return true;
    };
    await assert.rejects(world.snapshots.findHibernated(vmName, { signal }), /no registry/);
  });

  it("whose config is missing is damaged, not absent", async ({ signal }) => {
    await using world = await openWorld();
    await putTestSnapshot(world.registry, { vmName, tag: hibernateTag, snapshotId: "S1" }, { signal });
    world.server.repos.get(vmName)?.blobs.clear();
    await assert.rejects(world.snapshots.findHibernated(vmName, { signal }), (error: unknown) =>
      isFault(error, "damaged"),
    );
  });

  it("is pushed, described and read back; a lost tag is a conflict", async ({ signal }) => {
    await using world = await openWorld();
    await using directory = await temporaryDirectory();
    await using client = await openSnapshotClient({ threads: 1 });
    const source = await makeMachine(join(directory.path, "vm"), seededRandom(testSeed()), 1 << 20);
    const request = {
      client,
      source,
      vmName,
      tag: hibernateTag,
      namespace: "lab",
      node: "a",
      vmId: "VM1",
      baseImage: "demo",
      restoredFrom: "",
      signal,
    };
    const report = await world.snapshots.push(request);
    const found = await world.snapshots.findHibernated(vmName, { signal });
    assert.equal(found?.digest, report.digest);
    assert.deepEqual([found.fromNode, found.namespace, found.baseImage], ["a", "lab", "demo"]);

    const kept = world.snapshots.drop(
      vmName,
      { digest: report.digest, namespace: "lab", restoredFrom: "", vmId: "VM2" },
      { signal },
    );
    await assert.rejects(kept, /is not dropped/);
    await assert.rejects(world.snapshots.push({ ...request, namespace: "other" }), (error: unknown) =>
      isFault(error, "forbidden"),
    );
    world.server.hook = (incoming, response) => {
      if (incoming.method !== "PUT" || !incoming.url?.endsWith("manifests/hibernate")) return false;
      incoming.resume();
      response.writeHead(201).end(); // and forgets it
      world.server.repos.get(vmName)?.tags.delete(hibernateTag);
      return true;
    };
    await assert.rejects(world.snapshots.push({ ...request, node: "b" }), (error: unknown) =>
      isFault(error, "conflict"),
    );
  });

  it("is pushed although its anchor cannot be removed", async ({ signal }) => {
    await using world = await openWorld();
    await using directory = await temporaryDirectory();
    await using client = await openSnapshotClient({ threads: 1 });
    const source = await makeMachine(join(directory.path, "vm"), seededRandom(testSeed()), 1 << 20);
    await putTestSnapshot(world.registry, { vmName, tag: anchorTag, snapshotId: "S0" }, { signal });
    world.server.hook = (request, response) => {
      if (request.method === "DELETE") refuse(response, 403, "DENIED");
      return request.method === "DELETE";
    };
    const { digest } = await world.snapshots.push({
      client,
      source,
      vmName,
      tag: hibernateTag,
      format: "packed",
      namespace: "lab",
      node: "a",
      vmId: "VM1",
      baseImage: "",
      restoredFrom: "",
      signal,
    });
    assert.equal((await world.snapshots.findHibernated(vmName, { signal }))?.digest, digest);
  });

  it("is what content that is sent ahead is compared with, and belongs to the same machine", async ({
    signal,
  }) => {
    await using world = await openWorld();
    await using directory = await temporaryDirectory();
    await using client = await openSnapshotClient({ threads: 1 });
    const path = join(directory.path, "vm");
    const random = seededRandom(testSeed());
    const request = {
      client,
      source: await makeMachine(path, random),
      vmName,
      tag: hibernateTag,
      format: "packed",
      namespace: "lab",
      node: "a",
      vmId: "VM1",
      baseImage: "",
      restoredFrom: "",
      signal,
    } as const;
    const first = await world.snapshots.push(request); // and the VM continues in place
    const changed = { ...request, source: await runMachine(path, random), tag: anchorTag };
    const ahead = await world.snapshots.push(changed);
    assert.ok(ahead.bytesSent < first.bytesSent * 0.6, `${ahead.bytesSent} of ${first.bytesSent} bytes`);
    await assert.rejects(world.snapshots.push({ ...changed, namespace: "other" }), (error: unknown) =>
      isFault(error, "forbidden"),
    );
    assert.equal((await world.snapshots.findHibernated(vmName, { signal }))?.digest, first.digest);
  });

  it("does not count as sealed when the registry lost the seal", async ({ signal }) => {
    await using world = await openWorld();
    const digest = await putTestSnapshot(
      world.registry,
      { vmName, tag: hibernateTag, snapshotId: "S1" },
      { signal },
    );
    world.server.hook = (request, response) => {
      if (request.method !== "PUT" || !request.url?.endsWith(`/${sealTag}`)) return false;
      request.resume();
      response.writeHead(201).end();
      return true;
    };
    await assert.rejects(world.snapshots.seal(vmName, { digest, node: "a" }, { signal }), /must name/);
  });
});
