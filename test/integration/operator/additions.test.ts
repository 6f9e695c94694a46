/** What is ours: schedule, idleness, time to live, retention, sources, spare machines, pause, drain. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { annotation, releasedTag } from "@cocoon/contract";
import { isFault, sleep } from "@cocoon/core";
import { pods, resourceType, type KubeObject } from "@cocoon/kube";
import { eventually, fullTierOnly, sharedControlPlane } from "@cocoon/testkit";
import { retag } from "@cocoon/oci";
import { installCrds } from "../contract/install-crds.ts";
import { hibernations, openWorld, buildSpec, type TestWorld } from "./world.ts";

const cluster = await sharedControlPlane();
await installCrds(cluster);

const grants = resourceType<KubeObject>({
  group: "cocoonset.cocoonstack.io",
  version: "v1",
  kind: "CocoonSnapshotGrant",
  plural: "cocoonsnapshotgrants",
  namespaced: true,
});

async function running(world: TestWorld, name: string): Promise<void> {
  await world.reaches(name, (status, set) => {
    assert.equal(status.phase, "Running", JSON.stringify(status));
    assert.equal(status.observedGeneration, set.metadata.generation);
  });
}

suite("additions", { concurrency: 4, ...fullTierOnly("schedules and time-outs take minutes") }, () => {
  test("a schedule puts a set to sleep and wakes it", async () => {
    let shiftMs = 0;
    await using world = await openWorld(cluster, { operator: { now: () => new Date(Date.now() + shiftMs) } });
    const hour = (offset: number) => (new Date().getUTCHours() + offset + 24) % 24;
    const schedule = [
      { cron: `0 ${hour(2)} * * *`, action: "Hibernate" },
      { cron: `0 ${hour(4)} * * *`, timeZone: "UTC", action: "Wake" },
    ];
    await world.apply("a", buildSpec(world, { schedule }));
    await running(world, "a");
    shiftMs = 2 * 3_600_000;
    await world.reaches("a", (status) => assert.equal(status.phase, "Suspended"));
    shiftMs = 4 * 3_600_000;
    await running(world, "a");
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("an idle machine goes to sleep, and wakes when a client requests it", async () => {
    let shiftMs = 0;
    await using world = await openWorld(cluster, { operator: { now: () => new Date(Date.now() + shiftMs) } });
    await world.apply("b", buildSpec(world, { idle: { after: "10m" } }, { replicas: 1 }));
    await running(world, "b");
    await world.patch(
      "b-1",
      { metadata: { annotations: { [annotation.idleSince]: new Date().toISOString() } } },
      pods,
    );
    await sleep(500, { signal: world.signal });
    assert.ok(world.kubelet.vms.has(world.vmName("b-1")));
    shiftMs = 11 * 60_000;
    await eventually(() => assert.ok(!world.kubelet.vms.has(world.vmName("b-1"))), { timeoutMs: 30_000 });
    assert.ok(world.kubelet.vms.has(world.vmName("b-0")), "the other one is busy");
    await world.patch("b-1", { metadata: { annotations: { [annotation.idleSince]: null } } }, pods);
    await world.apply("b-1", { podRef: { name: "b-1" }, desire: "Wake" }, hibernations);
    await world.hibernationReaches("b-1", "Active");
    assert.ok(world.kubelet.vms.has(world.vmName("b-1")));
    assert.deepEqual(world.kubelet.violations, []);
  });

  test("a set goes when its time is over; old snapshots go, a sleeping machine's never", async () => {
    let shiftMs = 0;
    await using world = await openWorld(cluster, { operator: { now: () => new Date(Date.now() + shiftMs) } });
    await world.apply("c", buildSpec(world, { ttl: "1h" }));
    await world.apply("d", buildSpec(world, { retention: { after: "24h", keep: 1 } }));
    await running(world, "c");
    await running(world, "d");
    await world.patch("d", { spec: { suspend: true } });
    await world.reaches("d", (status) => assert.equal(status.phase, "Suspended"));
    const vmName = world.vmName("d-0");
    const repository = world.registry.repository(vmName);
    const ages = [72, 48].map((hours) => releasedTag(new Date(Date.now() - hours * 3_600_000)));
    for (const tag of ages) await retag({ repository, from: "hibernate", to: tag, signal: world.signal });
    shiftMs = 2 * 3_600_000;
    await eventually(
      async () => assert.deepEqual(await world.tags(vmName), ["hibernate", ages[1] ?? ""].sort()),
      {
        timeoutMs: 30_000,
      },
    );
    await eventually(async () => assert.rejects(world.set("c"), (error) => isFault(error, "notFound")), {
      timeoutMs: 30_000,
    });
  });

  test("a set starts from another's snapshot; across namespaces only where that is granted", async () => {
    await using world = await openWorld(cluster);
    await using other = await cluster.newNamespace();
    const from = { set: "base", tag: "v1" };
    await world.apply("e", buildSpec(world, {}, { from }));
    await running(world, "e");
    const image = async (pod: string) => (await world.pod(pod))?.metadata.annotations?.[annotation.image];
    assert.equal(await image("e-0"), `${world.vmName("base-0")}:v1`);
    await world.apply("f", buildSpec(world, {}, { from: { ...from, namespace: other.name } }));
    await world.reaches("f", (status) => {
      assert.equal(status.conditions?.find(({ type }) => type === "Degraded")?.reason, "SourceNotGranted");
    });
    assert.equal(await world.pod("f-0"), undefined);
    const grant = {
      metadata: { namespace: other.name, name: "to-us" },
      spec: { namespaces: [world.namespace], sets: ["base"] },
    };
    await world.connection.create(grants, grant, { signal: world.signal });
    await running(world, "f");
    assert.equal(await image("f-0"), `vk-${other.name}-base-0:v1`);
  });

  test("spare machines are ready before they are asked for, and taken over as they are", async () => {
    await using world = await openWorld(cluster);
    await world.apply("g", buildSpec(world, { warmPool: { size: 1 } }));
    await running(world, "g");
    await eventually(() => assert.ok(world.kubelet.vms.has(world.vmName("g-1"))));
    const spare = await world.pod("g-1");
    assert.equal((await world.set("g")).status?.subAgents, 0);
    await world.patch("g", { spec: { agent: { replicas: 1 } } });
    await running(world, "g");
    const taken = await world.pod("g-1");
    assert.equal(taken?.metadata.uid, spare?.metadata.uid, "the very same machine");
    assert.equal(taken?.metadata.labels?.["cocoonset.cocoonstack.io/role"], "sub-agent");
    await eventually(() =>
      assert.ok(world.kubelet.vms.has(world.vmName("g-2")), "and there is a new spare one"),
    );
  });

  test("a paused set is left alone until it goes on", async () => {
    await using world = await openWorld(cluster);
    await world.apply("h", buildSpec(world));
    await running(world, "h");
    await world.patch("h", { spec: { paused: true, agent: { replicas: 1 } } });
    await world.reaches("h", (status) => assert.equal(status.desiredAgents, 2));
    await world.connection.delete(
      pods,
      { namespace: world.namespace, name: "h-0" },
      { signal: world.signal },
    );
    await world.reaches("h", (status) => assert.equal(status.phase, "Pending"));
    assert.deepEqual(await world.podNames(), []);
    await world.patch("h", { spec: { paused: false } });
    await running(world, "h");
  });

  test("a drain puts the machines of a node to sleep, and they wake elsewhere", async () => {
    await using world = await openWorld(cluster);
    await world.apply("k", buildSpec(world, {}, { replicas: 1 }));
    await running(world, "k");
    const from = (await world.pod("k-0"))?.spec?.nodeName ?? "";
    const before = new Map([...world.kubelet.vms].map(([name, { counter }]) => [name, counter]));
    const drained = await cluster.kubectl(["drain", from, "--ignore-daemonsets", "--force", "--timeout=60s"]);
    assert.equal(drained.code, 0, drained.stderr);
    await eventually(
      async () => {
        for (const name of ["k-0", "k-1"]) {
          assert.ok(
            (world.kubelet.vms.get(world.vmName(name))?.counter ?? 0) > (before.get(world.vmName(name)) ?? 0),
          );
          assert.notEqual((await world.pod(name))?.spec?.nodeName, from);
        }
      },
      { timeoutMs: 60_000 },
    );
    await running(world, "k");
    assert.deepEqual(world.kubelet.violations, []);
  });
});
