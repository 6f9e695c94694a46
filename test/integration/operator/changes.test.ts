/** Sets that change: scale, drift, failure, move, deletion. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { annotation, tryReadReleasedTag } from "@cocoon/contract";
import { isFault } from "@cocoon/core";
import { pods } from "@cocoon/kube";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import { hibernations, openWorld, sets, buildSpec, type TestWorld } from "./world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);

async function running(world: TestWorld, name: string): Promise<void> {
  await world.reaches(name, (status, set) => {
    assert.equal(status.phase, "Running", JSON.stringify(status));
    assert.equal(status.observedGeneration, set.metadata.generation);
  });
}

async function deleted(world: TestWorld, name: string): Promise<void> {
  const key = { namespace: world.namespace, name };
  await world.connection.delete(sets, key, { signal: world.signal });
  await eventually(
    async () => {
      await assert.rejects(world.set(name), (error) => isFault(error, "notFound"));
    },
    { timeoutMs: 60_000 },
  );
}

suite("changes", { concurrency: 4 }, () => {
  test("a set scales by its subresource; what slept in a slot that was given up is kept under another name", async () => {
    await using world = await openWorld(cluster);
    await world.apply("a", buildSpec(world, {}, { replicas: 2 }));
    await running(world, "a");
    await world.apply("a-2", { podRef: { name: "a-2" }, desire: "Hibernate" }, hibernations);
    await world.hibernationReaches("a-2", "Hibernated");
    const vmName = world.vmName("a-2");
    const digest = await world.digest(vmName);
    const scaled = await world.cluster.kubectl([
      "scale",
      "cset.cocoonset.cocoonstack.io/a",
      "--replicas=1",
      "-n",
      world.namespace,
    ]);
    assert.equal(scaled.code, 0, scaled.stderr);
    await eventually(async () => assert.deepEqual(await world.podNames(), ["a-0", "a-1"]));
    const tags = await eventually(async () => {
      const found = await world.tags(vmName);
      assert.equal(found.filter((tag) => tryReadReleasedTag(tag)).length, 1);
      assert.ok(!found.includes("hibernate"));
      return found;
    });
    assert.equal(
      await world.digest(
        vmName,
        tags.find((tag) => tryReadReleasedTag(tag)),
      ),
      digest,
    );
    await world.connection.delete(
      hibernations,
      { namespace: world.namespace, name: "a-2" },
      { signal: world.signal },
    );
    world.kubelet.forget(vmName);
    await world.patch("a", { spec: { agent: { replicas: 2 } } });
    await running(world, "a");
    assert.equal(
      (await world.pod("a-2"))?.metadata.annotations?.[annotation.restoreFromHibernate],
      undefined,
    );
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("advisory changes reach a living machine, others replace machines one at a time, main first", async () => {
    await using world = await openWorld(cluster);
    await world.apply("b", buildSpec(world, {}, { replicas: 2, storage: "1024Mi" }));
    await running(world, "b");
    const uids = async () =>
      Promise.all(["b-0", "b-1", "b-2"].map(async (name) => (await world.pod(name))?.metadata.uid));
    const before = await uids();
    await world.patch("b", {
      spec: { snapshotPolicy: "main-only", agent: { probePort: 22, storage: "1Gi" } },
    });
    await eventually(async () => {
      const pod = await world.pod("b-2");
      assert.equal(pod?.metadata.annotations?.[annotation.probePort], "22");
      assert.equal(pod?.metadata.annotations?.[annotation.snapshotPolicy], "main-only");
    });
    await running(world, "b");
    assert.deepEqual(await uids(), before, "no machine was replaced");

    const unready = new Set<number>();
    const watching = (async () => {
      for (let round = 0; round < 200; round += 1) {
        const { items } = await world.connection.list(pods, {
          namespace: world.namespace,
          signal: world.signal,
        });
        const ready = items.filter(
          (pod) =>
            !pod.metadata.deletionTimestamp &&
            pod.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True"),
        );
        unready.add(3 - ready.length);
        if ((await uids()).every((uid, index) => uid && uid !== before[index])) return;
      }
    })();
    await world.patch("b", { spec: { agent: { image: "team/base:v2" } } });
    await watching;
    await running(world, "b");
    const after = await uids();
    assert.ok(
      after.every((uid, index) => uid !== before[index]),
      "all were replaced",
    );
    assert.ok(Math.max(...unready) <= 1, `at most one was missing, but ${Math.max(...unready)} were`);
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a failing sub-agent is rebuilt, then left; its set says so and the others run", async () => {
    await using world = await openWorld(cluster, { operator: { now: () => new Date(Date.now() * 10) } });
    await world.apply("c", buildSpec(world, {}, { replicas: 2 }));
    world.kubelet.failing.add(world.vmName("c-1"));
    await world.reaches("c", (status) => {
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.reason, "DeadLetter");
    });
    assert.equal((await world.pod("c-1"))?.metadata.annotations?.[annotation.deadLetter], "true");
    await eventually(async () => {
      const told = (await world.events()).filter((line) => line.includes("SubAgent"));
      assert.ok(told.includes("CocoonSet/c SubAgentDeadLetter"), told.join());
    });
    world.kubelet.failing.clear();
    await world.connection.delete(
      pods,
      { namespace: world.namespace, name: "c-1" },
      { signal: world.signal },
    );
    await running(world, "c");
  });

  test("the main agent moves to another node and goes on there", async () => {
    await using world = await openWorld(cluster);
    await world.apply("d", buildSpec(world));
    await running(world, "d");
    const from = (await world.pod("d-0"))?.spec?.nodeName;
    const to = world.nodes.find((name) => name !== from) ?? "";
    const { counter = 0 } = world.kubelet.vms.get(world.vmName("d-0")) ?? {};
    await world.patch("d", { spec: { nodeName: to } });
    await world.reaches("d", (status) => {
      assert.equal(status.phase, "Running");
      assert.equal(status.agents?.[0]?.nodeName, to);
    });
    assert.ok((world.kubelet.vms.get(world.vmName("d-0"))?.counter ?? 0) > counter);
    await eventually(async () => assert.deepEqual(await world.tags(world.vmName("d-0")), []));
    await eventually(async () => {
      const told = (await world.events()).filter((line) => line.includes("Migrat"));
      assert.deepEqual(told.toSorted(), ["CocoonSet/d Migrated", "CocoonSet/d Migrating"]);
    });
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a move to a node that cannot take it is refused before anything happens; a late one goes back", async () => {
    let shiftMs = 0;
    await using world = await openWorld(cluster, { operator: { now: () => new Date(Date.now() + shiftMs) } });
    await world.apply("e", buildSpec(world, { migration: { timeout: "10m" } }));
    await running(world, "e");
    const from = (await world.pod("e-0"))?.spec?.nodeName ?? "";
    const uid = (await world.pod("e-0"))?.metadata.uid;
    await world.patch("e", { spec: { nodeName: "nowhere" } });
    await world.reaches("e", (status) => {
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.reason, "MigrationRefused");
    });
    assert.equal((await world.pod("e-0"))?.metadata.uid, uid);

    const to = world.nodes.find((name) => name !== from) ?? "";
    // The scheduler knows something that the pre-flight does not.
    const taint = await world.cluster.kubectl(["taint", "node", to, "busy=1:NoSchedule"]);
    assert.equal(taint.code, 0, taint.stderr);
    await world.patch("e", { spec: { nodeName: to } });
    await eventually(async () => {
      const moved = (await world.pod("e-0"))?.metadata.uid;
      assert.ok(moved !== undefined && moved !== uid, "it waits for a node that does not take it");
    });
    shiftMs = 11 * 60_000;
    await world.patch("e", { metadata: { labels: { looked: "again" } } });
    await world.reaches("e", (status) => {
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.reason, "MigrationReturned");
      assert.equal(status.agents?.[0]?.nodeName, from);
      assert.equal(status.agents?.[0]?.ready, true);
    });
    assert.notEqual((await world.pod("e-0"))?.metadata.uid, uid);
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("deletion leaves the snapshots that the policy wants, also of machines that sleep", async () => {
    await using world = await openWorld(cluster);
    await world.apply("f", buildSpec(world, { snapshotPolicy: "main-only" }, { replicas: 1 }));
    await world.apply("g", buildSpec(world, {}, { replicas: 1 }));
    await world.apply("h", buildSpec(world, { deletionPolicy: "Purge" }));
    for (const name of ["f", "g", "h"]) await running(world, name);
    await world.patch("g", { spec: { suspend: true } });
    await world.reaches("g", (status) => assert.equal(status.phase, "Suspended"));
    const digest = await world.digest(world.vmName("g-1"));
    for (const name of ["f", "g", "h"]) await deleted(world, name);
    assert.deepEqual(await world.podNames(), []);
    const left = await Promise.all(
      ["f-0", "f-1", "g-0", "g-1", "h-0"].map((name) => world.tags(world.vmName(name))),
    );
    assert.deepEqual(left, [["latest"], [], ["latest"], ["latest"], []]);
    assert.equal(
      await world.digest(world.vmName("g-1"), "latest"),
      digest,
      "it is what the machine slept in",
    );
  });

  test("a name that another owner has is reported, and used when it is free", async () => {
    await using world = await openWorld(cluster);
    const { namespace, signal } = world;
    const stranger = {
      metadata: { namespace, name: "k-0" },
      spec: { nodeName: world.nodes[0], containers: [{ name: "x", image: "x" }] },
    };
    await world.connection.create(pods, stranger, { signal });
    await world.apply("k", buildSpec(world));
    await world.reaches("k", (status) => {
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.reason, "NameConflict");
    });
    await world.connection.delete(pods, { namespace, name: "k-0" }, { signal, gracePeriodSeconds: 0 });
    await running(world, "k");
    await world.reaches("k", (status) => {
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.status, "False");
    });
  });
});
