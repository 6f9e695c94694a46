/** What a cache shows may be old: nothing is deleted or dropped by it alone. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { annotation } from "@cocoon/contract";
import { pods } from "@cocoon/kube";
import { cocoonSets } from "./kinds.ts";
import { Simulation } from "./testing/simulation.ts";

const { signal } = new AbortController();

/** Set `s` with a running main agent and, where wanted, one running sub-agent. */
async function openRunning(replicas: number): Promise<Simulation> {
  const world = new Simulation({ leavesTags: true });
  const metadata = { namespace: "lab", name: "s", generation: 1, creationTimestamp: "2026-05-01T00:00:00Z" };
  await world.people.create(cocoonSets, { metadata, spec: { agent: { image: "x", replicas } } }, { signal });
  await settle(world);
  return world;
}

async function settle(world: Simulation): Promise<void> {
  for (let round = 0; round < 30; round += 1) {
    world.sync();
    await world.reconcileSet("s");
    for (const pod of world.pods()) if (!(await world.schedule(pod, ["n1"]))) await world.kubelet.step(pod);
  }
  world.sync();
}

const findPod = (world: Simulation, name: string) =>
  world.pods().find(({ metadata }) => metadata.name === name);

async function annotate(world: Simulation, name: string, annotations: Record<string, string | null>) {
  await world.patch(pods, name, { metadata: { annotations } });
}

test("a pod that recovered since the cache saw it failed is not deleted", async () => {
  using world = await openRunning(1);
  await annotate(world, "s-1", { [annotation.lifecycleState]: "failed" });
  world.sync();
  await annotate(world, "s-1", { [annotation.lifecycleState]: "ready" });
  await world.reconcileSet("s");
  assert.equal(findPod(world, "s-1")?.metadata.deletionTimestamp, undefined);
  await annotate(world, "s-1", { [annotation.lifecycleState]: "failed" });
  world.nowMs += 60_000;
  world.sync();
  await world.reconcileSet("s");
  assert.ok(findPod(world, "s-1")?.metadata.deletionTimestamp, "one that is still failed is");
});

test("a snapshot is not dropped when the machine is hibernated again behind the cache's back", async () => {
  using world = await openRunning(0);
  const { digest } = world.registry.push("vk-lab-s-0", "hibernate", 1);
  const agents = [
    { slot: 0, role: "main", vmName: "vk-lab-s-0", lifecycleState: "ready", snapshotDigest: digest },
  ];
  await world.patch(cocoonSets, "s", { status: { phase: "Running", agents } });
  await annotate(world, "s-0", { [annotation.restoredDigest]: digest });
  world.sync();
  world.nowMs = Date.now() + 120_000;
  await annotate(world, "s-0", { [annotation.hibernate]: "true" });
  await world.reconcileSet("s");
  assert.equal(world.registry.tags("vk-lab-s-0").get("hibernate")?.digest, digest);
  await annotate(world, "s-0", { [annotation.hibernate]: null });
  world.sync();
  await world.reconcileSet("s");
  assert.equal(
    world.registry.tags("vk-lab-s-0").get("hibernate"),
    undefined,
    "the proof holds: it is dropped",
  );
});

test("snapshots are not settled while the API server has pods that the cache does not show", async () => {
  using world = await openRunning(0);
  const { digest } = world.registry.push("vk-lab-s-0", "hibernate", 1);
  await world.people.delete(cocoonSets, { namespace: "lab", name: "s" }, { signal });
  world.sync();
  world.hidePods = true;
  for (let round = 0; round < 3; round += 1) await world.reconcileSet("s");
  assert.equal(world.registry.tags("vk-lab-s-0").get("hibernate")?.digest, digest);
  assert.equal(world.sets().length, 1, "the finalizer stays");
});

test("snapshots are not settled when the API server knows nothing of the deletion", async () => {
  using world = await openRunning(0);
  await world.people.delete(pods, { namespace: "lab", name: "s-0" }, { signal });
  for (let pod = findPod(world, "s-0"); pod; pod = findPod(world, "s-0")) await world.kubelet.step(pod);
  const { digest } = world.registry.push("vk-lab-s-0", "hibernate", 1);
  await world.people.delete(cocoonSets, { namespace: "lab", name: "s" }, { signal });
  world.sync();
  // As after an API server was restored from an older backup.
  await world.patch(cocoonSets, "s", { metadata: { deletionTimestamp: null } });
  await world.reconcileSet("s");
  assert.equal(world.registry.tags("vk-lab-s-0").get("hibernate")?.digest, digest);
});
