/** Suspending, waking, hibernations of single machines: on a real API server and registry, with a fake kubelet. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { annotation, setAnnotation } from "@cocoon/contract";
import { sleep } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import { eventually, fullTierOnly, sharedControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { hibernations, openWorld, buildSpec, type TestWorld } from "./world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);

async function running(world: TestWorld, name: string): Promise<void> {
  await world.reaches(name, (status, set) => {
    assert.equal(status.phase, "Running", JSON.stringify(status));
    assert.equal(status.observedGeneration, set.metadata.generation);
  });
}

const hibernate = (world: TestWorld, pod: string, more: object = {}) =>
  world.apply(pod, { podRef: { name: pod }, desire: "Hibernate", ...more }, hibernations);

suite("sleep", { concurrency: 4 }, () => {
  test("a set that keeps its pods hibernates with proven snapshots and continues where it was", async () => {
    await using world = await openWorld(cluster);
    await world.apply("a", buildSpec(world, { toolboxes: [{ name: "box", image: "x" }] }, { replicas: 1 }));
    await running(world, "a");
    const before = new Map([...world.kubelet.vms].map(([name, vm]) => [name, vm.counter]));
    await world.patch("a", { spec: { suspend: true } });
    const set = await world.reaches("a", (status) => assert.equal(status.phase, "Suspended"));
    assert.equal(world.kubelet.vms.size, 0, "no machine runs");
    assert.deepEqual(await world.podNames(), ["a-0", "a-1", "a-box"], "the pods are kept");
    for (const agent of set.status?.agents ?? [])
      assert.equal(agent.snapshotDigest, await world.digest(agent.vmName ?? ""), String(agent.vmName));
    assert.equal(set.status?.hibernatedMachines, 3);
    assert.equal(set.status?.conditions?.find(({ type }) => type === "Suspended")?.status, "True");

    await world.patch("a", { spec: { suspend: false } });
    await running(world, "a");
    for (const [name, counter] of before)
      assert.ok((world.kubelet.vms.get(name)?.counter ?? 0) > (counter ?? 0), name);
    await eventually(async () => assert.deepEqual(await world.tags(world.vmName("a-0")), []));
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a set that releases its pods wakes on the node it slept on", async () => {
    await using world = await openWorld(cluster);
    await world.apply("b", buildSpec(world, { hibernatePolicy: "release" }));
    await running(world, "b");
    const node = (await world.pod("b-0"))?.spec?.nodeName;
    await world.patch("b", { spec: { suspend: true } });
    const set = await world.reaches("b", (status) => assert.equal(status.phase, "Suspended"));
    await eventually(async () => assert.deepEqual(await world.podNames(), []));
    assert.equal(set.metadata.annotations?.[setAnnotation.hibernatedOnNode], node);
    assert.equal(set.metadata.annotations?.[setAnnotation.deleteVmNames], world.vmName("b-0"));
    assert.equal(set.status?.agents?.[0]?.snapshotDigest, await world.digest(world.vmName("b-0")));

    await world.patch("b", { spec: { suspend: false } });
    await running(world, "b");
    assert.equal((await world.pod("b-0"))?.spec?.nodeName, node);
    const woken = await world.reaches("b", (_status, { metadata }) =>
      assert.equal(metadata.annotations?.[setAnnotation.hibernatedOnNode], undefined),
    );
    assert.equal(woken.status?.phase, "Running");
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("what a Go kubelet leaves in the registry after a wake is kept, and renamed with its pod", async () => {
    const late = () => new Date(Date.now() + 60_000);
    await using world = await openWorld(cluster, { leavesTags: true, operator: { now: late } });
    await world.apply("g", buildSpec(world));
    await running(world, "g");
    await world.patch("g", { spec: { suspend: true } });
    await world.reaches("g", (status) => assert.equal(status.phase, "Suspended"));
    assert.deepEqual(await world.tags(world.vmName("g-0")), ["hibernate"]);
    await world.patch("g", { spec: { suspend: false } });
    await running(world, "g");
    await world.reaches("g", ({ conditions }) =>
      assert.equal(conditions?.find(({ type }) => type === "SnapshotsKept")?.status, "True"),
    );
    assert.deepEqual(await world.tags(world.vmName("g-0")), ["hibernate"]);
    await world.connection.delete(
      pods,
      { namespace: world.namespace, name: "g-0" },
      { signal: world.signal },
    );
    await eventually(async () => {
      const tags = await world.tags(world.vmName("g-0"));
      assert.deepEqual(tags.map((tag) => tag.replace(/-.*/, "-")).sort(), ["latest", "released-"]);
    });
    await running(world, "g");
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("one machine of a set sleeps by a CocoonHibernation; its set never fights it", async () => {
    await using world = await openWorld(cluster);
    await world.apply("c", buildSpec(world, {}, { replicas: 1 }));
    await running(world, "c");
    await hibernate(world, "c-1");
    const asleep = await world.hibernationReaches("c-1", "Hibernated");
    assert.equal(asleep.status?.snapshotDigest, await world.digest(world.vmName("c-1")));
    await world.reaches("c", (status) => assert.equal(status.hibernatedMachines, 1));
    await world.patch("c", { spec: { agent: { probePort: 22 } } });
    await world.reaches("c", (status, set) =>
      assert.equal(status.observedGeneration, set.metadata.generation),
    );
    assert.equal(
      (await world.hibernation("c-1")).status?.phase,
      "Hibernated",
      "another edit does not wake it",
    );

    await world.patch("c-1", { spec: { desire: "Wake" } }, hibernations);
    await world.hibernationReaches("c-1", "Active");
    // An old request to wake does not undo a suspension.
    await world.patch("c", { spec: { suspend: true } });
    await world.reaches("c", (status) => assert.equal(status.phase, "Suspended"));
    assert.equal((await world.pod("c-1"))?.metadata.annotations?.[annotation.hibernate], "true");
    assert.equal((await world.hibernation("c-1")).status?.phase, "Active");
    const reasons = (await world.events()).filter((line) => line.includes("CocoonHibernation/"));
    assert.deepEqual(reasons.sort(), [
      "CocoonHibernation/c-1 Hibernated",
      "CocoonHibernation/c-1 WokenActive",
    ]);
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a deleted CocoonHibernation leaves the machine asleep, or wakes it first when asked", async () => {
    await using world = await openWorld(cluster);
    await world.apply("d", buildSpec(world, {}, { replicas: 1 }));
    await running(world, "d");
    await hibernate(world, "d-0");
    await hibernate(world, "d-1", { deletionPolicy: "Wake" });
    await world.hibernationReaches("d-0", "Hibernated");
    await world.hibernationReaches("d-1", "Hibernated");
    const digest = await world.digest(world.vmName("d-0"));
    for (const name of ["d-0", "d-1"])
      await world.connection.delete(
        hibernations,
        { namespace: world.namespace, name },
        { signal: world.signal },
      );
    await eventually(
      async () => {
        const left = await world.connection.list(hibernations, {
          namespace: world.namespace,
          signal: world.signal,
        });
        assert.equal(left.items.length, 0);
      },
      { timeoutMs: 60_000 },
    );
    assert.ok(digest);
    assert.equal(await world.digest(world.vmName("d-0")), digest, "the copy is kept");
    assert.equal(world.kubelet.vms.has(world.vmName("d-0")), false, "it sleeps on");
    assert.equal(world.kubelet.vms.has(world.vmName("d-1")), true, "this one was to wake first");
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a pod without a set is put to sleep and woken too", async () => {
    await using world = await openWorld(cluster);
    const { namespace, signal, connection } = world;
    const vmName = world.vmName("web-0");
    await connection.create(
      pods,
      {
        metadata: {
          namespace,
          name: "web-7d4-abc",
          annotations: { [annotation.vmName]: vmName, [annotation.managed]: "true", [annotation.image]: "x" },
        },
        spec: {
          nodeName: world.nodes[0],
          tolerations: [{ operator: "Exists" }],
          containers: [{ name: "agent", image: "x" }],
        },
      },
      { signal },
    );
    await hibernate(world, "web-7d4-abc");
    await world.hibernationReaches("web-7d4-abc", "Hibernated");
    assert.ok(await world.digest(vmName));
    await world.patch("web-7d4-abc", { spec: { desire: "Wake" } }, hibernations);
    await world.hibernationReaches("web-7d4-abc", "Active");
    assert.ok(world.kubelet.vms.has(vmName));
    assert.deepEqual(world.kubelet.violations, []);
  });

  test(
    "a failed attempt stays failed until a retry is asked for, and the attempts are counted",
    fullTierOnly("waits for time-outs"),
    async () => {
      await using world = await openWorld(cluster);
      await world.apply("f", buildSpec(world));
      await running(world, "f");
      world.kubelet.silent = true;
      await hibernate(world, "f-0", { timeout: "10s" });
      await world.hibernationReaches("f-0", "Hibernating");
      const failed = await world.hibernationReaches("f-0", "Failed");
      assert.equal(failed.status?.attempts, 1);
      const { resourceVersion } = failed.metadata;
      // Longer than a resync: what would retry by itself had its chance.
      await sleep(5_000, { signal: world.signal });
      assert.equal(
        (await world.hibernation("f-0")).metadata.resourceVersion,
        resourceVersion,
        "it is not touched",
      );
      await world.patch(
        "f-0",
        { metadata: { annotations: { "cocoonset.cocoonstack.io/retry": "1" } } },
        hibernations,
      );
      await world.hibernationReaches("f-0", "Hibernating");
      world.kubelet.speak();
      const done = await world.hibernationReaches("f-0", "Hibernated");
      assert.equal(done.status?.attempts, 2);
      const told = (await world.events()).filter((line) => line.startsWith("CocoonHibernation/"));
      assert.deepEqual(told.sort(), [
        "CocoonHibernation/f-0 HibernateTimedOut",
        "CocoonHibernation/f-0 Hibernated",
        "CocoonHibernation/f-0 RetryRequested",
      ]);
    },
  );
});
