/** Sleep and wake through annotations, with the kubelet killed between every two steps. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { silentLogger } from "@cocoon/core";
import { openCaches, openKubeClient, pods } from "@cocoon/kube";
import { eventually, sharedControlPlane, tier } from "@cocoon/testkit";
import { machinePod, mark, openWorld, runMachine, readMark, type TestVk, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const hibernate = "vm.cocoonstack.io/hibernate";
const timeoutMs = 60_000;

async function lifecycle(world: World, pod: string): Promise<string> {
  return (await world.pod(pod))?.metadata.annotations["vm.cocoonstack.io/lifecycle-state"] ?? "";
}

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(async () => assert.equal(await lifecycle(world, pod), state), { timeoutMs });
}

/** Copies of the machine that exist anywhere: VMs on hosts, and the one that sleeps. Never none, never two that run. */
async function census(world: World, nodes: readonly TestVk[], vmName: string) {
  const guests = nodes.flatMap((node) => [...node.host.vms.values()]).filter(({ vm }) => vm.name === vmName);
  return {
    guests: guests.length,
    running: guests.filter(({ vm }) => vm.state === "running").length,
    asleep: (await world.tagged(vmName, "hibernate")) !== undefined,
  };
}

async function bootMachine(world: World, node: TestVk): Promise<string> {
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  return vmName;
}

/** For every state that the pods' annotations told: the reasons that stood beside it for being ready or not. */
async function watchReadiness(world: World) {
  await using stack = new AsyncDisposableStack();
  const { signal } = new AbortController();
  const client = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  const caches = stack.use(openCaches({ client, log: silentLogger }));
  const cache = caches.open(pods, { namespace: world.namespace.name });
  await cache.synced({ signal });
  const reasons = new Map<string, Set<string>>();
  cache.subscribe(({ object: { metadata, status } }) => {
    const state = metadata.annotations?.["vm.cocoonstack.io/lifecycle-state"] ?? "";
    const reason = status?.conditions?.find(({ type }) => type === "Ready")?.reason ?? "";
    reasons.set(state, (reasons.get(state) ?? new Set()).add(reason));
  });
  const owned = stack.move();
  return { reasons, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test("a machine hibernates with its pod kept, and wakes where it was", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await bootMachine(world, node);
  const marked = mark(node, vmName);
  await using seen = await watchReadiness(world);

  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  assert.deepEqual(await census(world, [node], vmName), { guests: 0, running: 0, asleep: true });
  const pod = await world.pod("demo");
  assert.equal(pod?.status.phase, "Running");
  assert.equal(pod.status.podIP, undefined);
  assert.equal(pod.metadata.annotations["vm.cocoonstack.io/id"], undefined);
  const ready = pod.status.conditions.find((each) => each.type === "Ready");
  assert.deepEqual([ready?.status, ready?.reason], ["False", "Hibernated"]);
  assert.equal(pod.status.containerStatuses?.[0]?.state["waiting"]?.reason, "Hibernated");
  await eventually(() => assert.ok(seen.reasons.has("hibernated")));
  assert.deepEqual(
    [...(seen.reasons.get("hibernated") ?? [])],
    ["Hibernated"],
    "the annotation never comes first",
  );
  const shown = await cluster.kubectl(["get", "pod", "demo", "-n", world.namespace.name]);
  assert.match(shown.stdout, /Hibernated/);

  await world.annotate("demo", `${hibernate}-`);
  await reaches(world, "demo", "ready");
  assert.equal(readMark(node, vmName), marked);
  await eventually(async () =>
    assert.deepEqual(await census(world, [node], vmName), { guests: 1, running: 1, asleep: false }),
  );
  await eventually(async () => {
    const { annotations = {} } = (await world.pod("demo"))?.metadata ?? {};
    assert.equal(annotations["vm.cocoonstack.io/snapshot-digest"], undefined);
  });
  assert.deepEqual(node.snapshots(), [], "nothing is left on the host");
});

const isFull = tier() === "full";
const sleepSteps = isFull
  ? ["announce", "save", "push", "record", "clearId", "remove", "seal", "settled"]
  : ["push"];
const wakeSteps = isFull
  ? ["announce", "claim", "restore", "settled", "dropTag", "clearDigest"]
  : ["restore", "dropTag"];

for (const step of sleepSteps)
  test(`killed before "${step}" on the way to sleep: never lost, never two`, async () => {
    await using world = await openWorld(cluster);
    const node = await world.newNode();
    const vmName = await bootMachine(world, node);
    const marked = mark(node, vmName);
    const killed = node.killBefore(step);
    await world.annotate("demo", `${hibernate}=true`);
    await killed;
    const between = await census(world, [node], vmName);
    assert.ok(between.guests === 1 || between.asleep, `lost: ${JSON.stringify(between)}`);
    await node.start();
    await reaches(world, "demo", "hibernated");
    assert.deepEqual(await census(world, [node], vmName), { guests: 0, running: 0, asleep: true });
    await world.annotate("demo", `${hibernate}-`);
    await reaches(world, "demo", "ready");
    assert.equal(readMark(node, vmName), marked);
  });

/** The last moments at which the copy is in the registry and recorded, and the VM is still on the host. */
const afterRecord = isFull ? (["clearId", "remove"] as const) : (["remove"] as const);

for (const step of afterRecord)
  for (const spec of ["sleep", "wake"] as const)
    test(`the whole host dies before "${step}", then ${spec} is wanted: its memory is not lost`, async () => {
      await using world = await openWorld(cluster);
      const node = await world.newNode();
      const vmName = await bootMachine(world, node);
      const marked = mark(node, vmName);
      const killed = node.killBefore(step);
      await world.annotate("demo", `${hibernate}=true`);
      await killed;
      node.host.kill(vmName);
      if (spec === "wake") await world.annotate("demo", `${hibernate}-`);
      await node.start();
      if (spec === "sleep") {
        await reaches(world, "demo", "hibernated");
        assert.deepEqual(await census(world, [node], vmName), { guests: 0, running: 0, asleep: true });
        await world.annotate("demo", `${hibernate}-`);
      }
      await reaches(world, "demo", "ready");
      assert.equal(readMark(node, vmName), marked);
    });

for (const step of wakeSteps)
  test(`killed before "${step}" on the way to wake: never lost, never two`, async () => {
    await using world = await openWorld(cluster);
    const node = await world.newNode();
    const vmName = await bootMachine(world, node);
    const marked = mark(node, vmName);
    await world.annotate("demo", `${hibernate}=true`);
    await reaches(world, "demo", "hibernated");
    const killed = node.killBefore(step);
    await world.annotate("demo", `${hibernate}-`);
    await killed;
    const between = await census(world, [node], vmName);
    assert.ok(between.guests === 1 || between.asleep, `lost: ${JSON.stringify(between)}`);
    await node.start();
    await reaches(world, "demo", "ready");
    assert.equal(readMark(node, vmName), marked);
    await eventually(async () =>
      assert.deepEqual(await census(world, [node], vmName), { guests: 1, running: 1, asleep: false }),
    );
  });

test("woken, run on, deleted and made again: never the old state", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await bootMachine(world, node);
  const marked = mark(node, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  await world.annotate("demo", `${hibernate}-`);
  await reaches(world, "demo", "ready");
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name, "--timeout=60s"]);
  assert.equal(await world.tagged(vmName, "hibernate"), undefined);
  await bootMachine(world, node);
  assert.notEqual(readMark(node, vmName), marked);
});

test("a registry that is away: hibernation waits and says so, nothing is destroyed, the guest goes on", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await bootMachine(world, node);
  await world.server.stop();
  await world.annotate("demo", `${hibernate}=true`);
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod("demo"))?.metadata ?? {};
      assert.notEqual(annotations["vm.cocoonstack.io/lifecycle-state-message"] ?? "", "");
    },
    { timeoutMs },
  );
  assert.equal(node.vm(vmName).vm.state, "running");
  await world.annotate("demo", `${hibernate}-`);
  await reaches(world, "demo", "ready");
  assert.equal(node.vm(vmName).vm.state, "running");
});
