/** Machines that must survive what users, older kubelets and late caches do, on a real API server and registry. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { annotation, setAnnotation } from "@cocoon/contract";
import { pods } from "@cocoon/kube";
import { putTestSnapshot } from "@cocoon/machine/testing";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { buildSpec, openWorld, sets } from "./world.ts";

suite("operator safety", async () => {
  const cluster = await sharedControlPlane();
  await installCrds(cluster);

  test("a copy of a set's YAML that is deleted again does not touch the original's snapshots", async () => {
    await using world = await openWorld(cluster);
    const spec = buildSpec(world, { suspend: true, hibernatePolicy: "release", deletionPolicy: "Purge" });
    await world.apply("o-rig", buildSpec(world, { hibernatePolicy: "release", deletionPolicy: "Purge" }));
    await world.reaches("o-rig", ({ phase }) => assert.equal(phase, "Running"));
    await world.patch("o-rig", { spec: { suspend: true } });
    const { metadata } = await world.reaches("o-rig", ({ phase, agents }) => {
      assert.equal(phase, "Suspended");
      assert.equal(agents?.[0]?.podName, undefined);
    });
    const { namespace, signal, connection } = world;
    const { annotations = {} } = metadata;
    assert.equal(annotations[setAnnotation.deleteVmNames], world.vmName("o-rig-0"));
    // The second name makes `<copy>-` a prefix of the original's VM names.
    const released = { ...annotations, [setAnnotation.releasedVmNames]: world.vmName("o-rig-0") };
    for (const name of ["copy", "o"]) {
      await connection.create(sets, { metadata: { namespace, name, annotations: released }, spec } as never, {
        signal,
      });
      await world.reaches(name, ({ phase }) => assert.ok(phase));
      await connection.delete(sets, { namespace, name }, { signal });
      await eventually(async () => {
        const { items } = await connection.list(sets, { namespace, signal });
        assert.deepEqual(
          items.map((set) => set.metadata.name),
          ["o-rig"],
        );
      });
    }
    assert.deepEqual(await world.tags(world.vmName("o-rig-0")), ["hibernate"]);
    await world.patch("o-rig", { spec: { suspend: false } });
    await world.reaches("o-rig", ({ phase }) => assert.equal(phase, "Running"));
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a kubelet that boots fresh instead of restoring does not cost the snapshot", async () => {
    const late = () => new Date(Date.now() + 60_000);
    await using world = await openWorld(cluster, {
      leavesTags: true,
      bootsFresh: true,
      operator: { now: late },
    });
    await world.apply("f", buildSpec(world));
    await world.reaches("f", ({ phase }) => assert.equal(phase, "Running"));
    await world.patch("f", { spec: { suspend: true } });
    await world.reaches("f", ({ phase }) => assert.equal(phase, "Suspended"));
    const digest = await world.digest(world.vmName("f-0"));
    // What a newer kubelet recorded before the older one took over is no proof.
    const recorded = { metadata: { annotations: { [annotation.snapshotDigest]: digest } } };
    await world.patch("f-0", recorded, pods);
    await world.patch("f", { spec: { suspend: false } });
    await world.reaches("f", ({ conditions }) => {
      const kept = conditions?.find(({ type }) => type === "SnapshotsKept");
      assert.equal(kept?.status, "True");
      assert.ok(kept.message.includes(digest ?? "-"), kept.message);
    });
    assert.equal(await world.digest(world.vmName("f-0")), digest);
    await eventually(async () => assert.ok((await world.events()).includes("CocoonSet/f SnapshotKept")));
  });

  test("two sets that claim one machine name: deleting the one that never had it leaves the other alone", async () => {
    await using world = await openWorld(cluster);
    const { namespace, signal, connection } = world;
    const toolboxes = [{ name: "x-0", image: "tools:v1" }];
    await world.apply("p-x", buildSpec(world));
    await world.reaches("p-x", ({ phase }) => assert.equal(phase, "Running"));
    await world.patch("p-x", { spec: { suspend: true } });
    await world.reaches("p-x", ({ phase }) => assert.equal(phase, "Suspended"));
    await world.apply("p", buildSpec(world, { toolboxes, deletionPolicy: "Purge" }));
    await world.reaches("p", ({ conditions }) =>
      assert.equal(conditions?.find(({ type }) => type === "Degraded")?.reason, "NameConflict"),
    );
    await connection.delete(sets, { namespace, name: "p" }, { signal });
    await eventually(async () => {
      const { items } = await connection.list(sets, { namespace, signal });
      assert.deepEqual(
        items.map((set) => set.metadata.name),
        ["p-x"],
      );
    });
    assert.deepEqual(await world.tags(world.vmName("p-x-0")), ["hibernate"]);
  });

  test("a set that is deleted does not touch another namespace's machine of the same name", async () => {
    await using world = await openWorld(cluster);
    const { namespace, signal, connection, registry } = world;
    const vmName = world.vmName("q-0");
    const released = "released-20260102T030405Z";
    await world.apply("q", buildSpec(world, { deletionPolicy: "Purge" }));
    await world.reaches("q", ({ phase }) => assert.equal(phase, "Running"));
    // As set `<rest>-q` of a namespace whose name is the beginning of this one's pushes them.
    for (const tag of ["hibernate", released])
      await putTestSnapshot(registry, { vmName, tag, snapshotId: tag, namespace: "other" }, { signal });
    const before = [await world.digest(vmName), await world.digest(vmName, released)];
    await connection.delete(sets, { namespace, name: "q" }, { signal });
    await eventually(async () => {
      const { items } = await connection.list(sets, { namespace, signal });
      assert.deepEqual(items, []);
    });
    assert.deepEqual(await world.tags(vmName), ["hibernate", released]);
    assert.deepEqual([await world.digest(vmName), await world.digest(vmName, released)], before);
  });
});
