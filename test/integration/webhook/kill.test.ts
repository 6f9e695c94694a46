/** A replica dies in the middle of a burst, at any moment: no name twice, no slot lost, nothing left behind. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { configMaps } from "@cocoon/kube";
import { count, eventually, ownControlPlane } from "@cocoon/testkit";
import { startTestNodes } from "./nodes.ts";
import { apply, buildDeployment, machinePod, listPods, type SeenPod } from "./objects.ts";
import { buildWorld, type WebhookWorld } from "./world.ts";

let world: WebhookWorld;
const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;
const patient = { timeoutMs: 300_000, intervalMs: 200 };
/** Short, so that the test sees the end of it, but longer than the API server waits for an answer. */
const times = { WEBHOOK_UNBOUND_GRACE: "12s", REAPER_GRACE: "3s", REAPER_INTERVAL: "1s" };

before(async () => {
  const cluster = stack.use(await ownControlPlane());
  world = stack.use(await buildWorld(cluster));
  stack.use(await startTestNodes({ client: world.client, names: ["node-a", "node-b", "node-c", "node-d"] }));
});

after(() => stack.disposeAsync());

function assertUnique(found: readonly SeenPod[]): void {
  const names = found.map(({ vmName }) => vmName);
  assert.equal(new Set(names).size, names.length, "a machine name twice");
  assert.ok(!names.includes(""), "a pod without a machine name");
}

test("kill -9 of a replica during a burst", { timeout: 900_000 }, async (t) => {
  await using namespace = await world.cluster.newNamespace();
  const ns = namespace.name;
  const total = count({ small: 120, full: 500 });
  const owners = 4;
  const first = await world.addReplica("one", times);
  await world.addReplica("two", times);
  await apply(
    world.cluster,
    ...Array.from({ length: owners }, (_, index) =>
      buildDeployment(ns, { name: `burst-${"abcd"[index]}`, replicas: total / owners }),
    ),
  );
  await eventually(async () => {
    const { length } = await listPods(world.client, ns);
    assert.ok(length >= total / 4, `${length} pods`);
  }, patient);
  await first.kill("SIGKILL");
  world.retire(first);
  const killedAt = (await listPods(world.client, ns)).length;
  await world.addReplica("three", times);
  const all = await eventually(async () => {
    const found = await listPods(world.client, ns);
    assertUnique(found);
    assert.equal(found.length, total);
    return found;
  }, patient);
  t.diagnostic(`killed after ${killedAt} of ${total} pods`);

  // The reservations of admissions whose answer was never heard are released; those of the pods stay.
  const names = all.map(({ vmName }) => vmName).toSorted();
  await eventually(async () => {
    const held = (await world.entries()).filter((entry) => entry.namespace === ns);
    assert.deepEqual(held.map(({ vmName }) => vmName).toSorted(), names);
    assert.ok(held.every((entry) => all.some(({ uid }) => uid === entry.podUid)));
  }, patient);

  // No gap stays: what is free below the highest slot is what the next replicas get.
  const owner = "burst-a";
  const slots = all.filter(({ vmName }) => vmName.includes(`-${owner}-`)).map(({ slot }) => slot);
  await world.cluster.kubectl([
    "-n",
    ns,
    "scale",
    `deployment/${owner}`,
    `--replicas=${Math.max(...slots) + 1}`,
  ]);
  await eventually(async () => {
    const now = (await listPods(world.client, ns)).filter(({ vmName }) => vmName.includes(`-${owner}-`));
    assert.deepEqual(
      now.map(({ slot }) => slot).toSorted((left, right) => left - right),
      Array.from({ length: Math.max(...slots) + 1 }, (_, slot) => slot),
    );
  }, patient);
});

test("a slot is released when its pod has been gone for the grace, and one that was never created soon", async () => {
  await using namespace = await world.cluster.newNamespace();
  const ns = namespace.name;
  const kubectl = (args: readonly string[], input = "") =>
    world.cluster.kubectl(["-n", ns, ...args], { input });
  const keys = async () =>
    (await world.entries()).filter((entry) => entry.namespace === ns).map(({ key }) => key);
  await apply(world.cluster, machinePod(ns, "brief"));
  await kubectl(["delete", "pod", "brief"]);
  await eventually(async () => assert.deepEqual(await keys(), []), patient);

  // Refused after our admission, by a quota: the reservation has no pod.
  await apply(world.cluster, {
    apiVersion: "v1",
    kind: "ResourceQuota",
    metadata: { namespace: ns, name: "none" },
    spec: { hard: { pods: "0" } },
  });
  await eventually(async () => {
    const refused = await kubectl(["create", "-f", "-"], JSON.stringify(machinePod(ns, "never")));
    assert.match(refused.stderr, /exceeded quota/);
  }, patient);
  assert.deepEqual(await keys(), [`${ns}._pod.never`]);
  await eventually(async () => assert.deepEqual(await keys(), []), patient);
});

test("an older store is taken over once, and a lost one is made anew from the pods", async () => {
  await using namespace = await world.cluster.newNamespace();
  const ns = namespace.name;
  const mine = async () => (await world.entries()).filter((entry) => entry.namespace === ns);
  await world.client.create(
    configMaps,
    {
      metadata: { namespace: ns, name: "cocoon-vm-affinity" },
      data: { [`vk-${ns}-old`]: "node:node-b,pod:old", junk: "junk" },
    },
    { signal },
  );
  for (const replica of world.replicas()) {
    await replica.kill("SIGTERM");
    world.retire(replica);
  }
  const replica = await world.addReplica("four", { ...times, REAPER_GRACE: "10m" });
  const [imported] = await eventually(async () => {
    const found = await mine();
    assert.equal(found.length, 1);
    return found;
  }, patient);
  assert.equal(imported?.node, "node-b");
  assert.equal(imported.key, `${ns}._pod.old`);
  await apply(world.cluster, machinePod(ns, "old"));
  const [pod] = await listPods(world.client, ns);
  assert.equal(pod?.node, "node-b", "the machine is where it was");

  await eventually(async () => assert.equal((await mine())[0]?.podUid, pod.uid), patient);
  await world.cluster.kubectl([
    "-n",
    "cocoon-system",
    "delete",
    "configmap",
    "-l",
    "app.kubernetes.io/managed-by=cocoon-webhook",
  ]);
  const [again] = await eventually(async () => {
    const found = await mine();
    assert.equal(found.length, 1);
    return found;
  }, patient);
  assert.equal(again?.podUid, pod.uid);
  assert.equal(again.vmName, pod.vmName);
  assert.equal(replica.child.exitCode, null);
});
