/** Machines' pods through a real API server, made by the real controllers, admitted by two replicas of the webhook. */
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { annotation, nodeLabel, workloadAnnotation } from "@cocoon/contract";
import { configMaps, nodes, pods } from "@cocoon/kube";
import { eventually, ownControlPlane, seededRandom, testSeed } from "@cocoon/testkit";
import { openBorder, withMethods, type Border } from "./border.ts";
import { startTestNodes, type TestNodes } from "./nodes.ts";
import {
  apply,
  buildDeployment,
  buildJob,
  machinePod,
  listPods,
  buildStatefulSet,
  type SeenPod,
} from "./objects.ts";
import { buildWorld, type WebhookWorld } from "./world.ts";

let world: WebhookWorld;
let hosts: TestNodes;
const stack = new AsyncDisposableStack();
const signal = new AbortController().signal;
const patient = { timeoutMs: 90_000, intervalMs: 100 };

before(async () => {
  const cluster = stack.use(await ownControlPlane());
  world = stack.use(await buildWorld(cluster));
  hosts = stack.use(await startTestNodes({ client: world.client, names: ["node-a", "node-b", "node-c"] }));
  await Promise.all([world.addReplica("one"), world.addReplica("two")]);
});

after(() => stack.disposeAsync());

/** Exactly that many pods, none of them on its way out. */
function settled(namespace: string, replicas: number): Promise<SeenPod[]> {
  return eventually(async () => {
    const found = await listPods(world.client, namespace);
    assert.equal(found.length, replicas);
    assert.ok(found.every((pod) => !pod.terminating));
    return found;
  }, patient);
}

const bySlot = (left: SeenPod, right: SeenPod) => left.slot - right.slot;
const readPlace = ({ vmName, node }: SeenPod) => ({ vmName, node });
const range = (length: number) => Array.from({ length }, (_, slot) => slot);

test("a bare pod gets a machine name, a spec and a node, and the store says so", async () => {
  await using namespace = await world.cluster.newNamespace();
  await apply(world.cluster, machinePod(namespace.name, "box"));
  const pod = await world.client.get(pods, { namespace: namespace.name, name: "box" }, { signal });
  const vmName = `vk-${namespace.name}-box`;
  assert.equal(pod.metadata.annotations?.[annotation.vmName], vmName);
  assert.equal(pod.metadata.annotations?.[annotation.image], "example.com/box:1");
  assert.equal(pod.metadata.annotations?.[annotation.managed], "true");
  assert.equal(pod.metadata.annotations?.[annotation.mode], undefined);
  assert.match(pod.spec?.nodeName ?? "", /^node-[abc]$/);
  const patience = pod.spec?.tolerations?.filter(({ key }) => key?.startsWith("node.kubernetes.io/"));
  assert.deepEqual(
    patience?.map(({ key, tolerationSeconds }) => [key, tolerationSeconds]),
    [
      ["node.kubernetes.io/not-ready", undefined],
      ["node.kubernetes.io/unreachable", undefined],
    ],
  );
  await eventually(async () => {
    const [entry, ...others] = (await world.entries()).filter((each) => each.namespace === namespace.name);
    assert.deepEqual(others, []);
    assert.equal(entry?.key, `${namespace.name}._pod.box`);
    assert.equal(entry.shard, "cocoon-affinity-default");
    assert.equal(entry.vmName, vmName);
    assert.equal(entry.pod, "box");
    assert.equal(entry.node, pod.spec?.nodeName);
    assert.equal(entry.podUid, pod.metadata.uid, "bound to the pod");
  }, patient);

  await world.cluster.kubectl(["-n", namespace.name, "delete", "pod", "box"]);
  await settled(namespace.name, 0);
  await apply(world.cluster, machinePod(namespace.name, "box"));
  const [again] = await settled(namespace.name, 1);
  assert.deepEqual(again && readPlace(again), { vmName, node: pod.spec?.nodeName });
});

test("50 replicas have 50 names, and deleted ones come back to theirs and to their nodes", async () => {
  await using namespace = await world.cluster.newNamespace();
  await apply(world.cluster, buildDeployment(namespace.name, { name: "demo", replicas: 50 }));
  const first = await settled(namespace.name, 50);
  assert.deepEqual(
    first.toSorted(bySlot).map(({ slot }) => slot),
    range(50),
  );
  assert.equal(new Set(first.map(({ node }) => node)).size, 3, "spread over all nodes");
  const counts = [...Map.groupBy(first, ({ node }) => node).values()].map((each) => each.length);
  assert.ok(Math.max(...counts) - Math.min(...counts) <= 3, `evenly: ${counts.join(" ")}`);

  const random = seededRandom(testSeed());
  const doomed = first.toSorted(() => random() - 0.5).slice(0, 20);
  await world.cluster.kubectl([
    "-n",
    namespace.name,
    "delete",
    "pod",
    "--wait=false",
    ...doomed.map(({ name }) => name),
  ]);
  await eventually(async () => {
    const now = await listPods(world.client, namespace.name);
    assert.ok(doomed.every(({ uid }) => !now.some((pod) => pod.uid === uid)));
  }, patient);
  const second = await settled(namespace.name, 50);
  assert.deepEqual(second.toSorted(bySlot).map(readPlace), first.toSorted(bySlot).map(readPlace));
});

test("StatefulSet pods are named after themselves, Job pods by slot", async () => {
  await using namespace = await world.cluster.newNamespace();
  await apply(world.cluster, buildStatefulSet(namespace.name, "db", 2), buildJob(namespace.name, "batch", 2));
  const found = await settled(namespace.name, 4);
  const ns = namespace.name;
  assert.deepEqual(found.map(({ vmName }) => vmName).toSorted(), [
    `vk-${ns}-batch-0`,
    `vk-${ns}-batch-1`,
    `vk-${ns}-db-0`,
    `vk-${ns}-db-1`,
  ]);
  const entries = (await world.entries()).filter((each) => each.namespace === ns);
  assert.deepEqual(entries.map(({ key }) => key).toSorted(), [
    `${ns}._pod.db-0`,
    `${ns}._pod.db-1`,
    `${ns}.batch.0`,
    `${ns}.batch.1`,
  ]);
  assert.equal(entries.find(({ key }) => key === `${ns}._pod.db-1`)?.slot, 1);
});

test("a scale-down is refused; one that is meant takes the highest slots, and scaling up brings them back", async () => {
  await using namespace = await world.cluster.newNamespace();
  const kubectl = (...args: string[]) => world.cluster.kubectl(["-n", namespace.name, ...args]);
  await apply(world.cluster, buildDeployment(namespace.name, { name: "demo", replicas: 8 }));
  const first = await settled(namespace.name, 8);
  const refused = await kubectl("scale", "deployment/demo", "--replicas=5");
  assert.match(refused.stderr, /scale-down blocked for cocoon Scale .*\/demo \(8 -> 5\)/);
  assert.match(refused.stderr, /CocoonHibernation/);
  const edited = await kubectl("patch", "deployment", "demo", "-p", '{"spec":{"replicas":5}}');
  assert.match(edited.stderr, /scale-down blocked for cocoon Deployment/);
  // Wait until all are equally ready, so that only the cost decides.
  await eventually(async () => {
    const { stdout } = await kubectl("get", "deployment", "demo", "-o", "jsonpath={.status.readyReplicas}");
    assert.equal(stdout, "8");
  }, patient);

  await kubectl("annotate", "deployment", "demo", `${workloadAnnotation.allowScaleDown}=true`);
  await eventually(async () => {
    const scaled = await kubectl("scale", "deployment/demo", "--replicas=5");
    assert.equal(scaled.code, 0, scaled.stderr);
  }, patient);
  const fewer = await settled(namespace.name, 5);
  assert.deepEqual(
    fewer.toSorted(bySlot).map(({ slot }) => slot),
    range(5),
  );
  await kubectl("scale", "deployment/demo", "--replicas=10");
  const more = await settled(namespace.name, 10);
  assert.deepEqual(
    more.toSorted(bySlot).map(({ slot }) => slot),
    range(10),
  );
  assert.deepEqual(more.toSorted(bySlot).slice(0, 8).map(readPlace), first.toSorted(bySlot).map(readPlace));

  await kubectl("annotate", "deployment", "demo", `${workloadAnnotation.allowScaleDown}-`);
  await world.cluster.kubectl(["delete", "namespace", namespace.name, "--wait=false"]);
  await eventually(async () => {
    const left = await world.cluster.kubectl(["get", "namespace", namespace.name]);
    assert.match(left.stderr, /NotFound/, "a namespace goes with all that is in it");
  }, patient);
});

test("a workload can be deleted with its machines; the scale of another one stays guarded", async () => {
  await using namespace = await world.cluster.newNamespace();
  const kubectl = (...args: string[]) => world.cluster.kubectl(["-n", namespace.name, ...args]);
  await apply(
    world.cluster,
    buildDeployment(namespace.name, { name: "going", replicas: 2 }),
    buildDeployment(namespace.name, { name: "staying", replicas: 2 }),
  );
  await settled(namespace.name, 4);
  const deleted = await kubectl("delete", "deployment", "going");
  assert.equal(deleted.code, 0, deleted.stderr);
  const left = await settled(namespace.name, 2);
  assert.ok(left.every(({ vmName }) => vmName.includes("-staying-")));
  const scaled = await kubectl("scale", "deployment/staying", "--replicas=0");
  assert.match(scaled.stderr, /scale-down blocked/);
});

test("a name that another owner holds is refused, naming the holder", async () => {
  await using namespace = await world.cluster.newNamespace();
  const ns = namespace.name;
  await apply(world.cluster, buildDeployment(ns, { name: "demo", replicas: 1 }));
  await settled(ns, 1);
  const create = (object: object) =>
    world.cluster.kubectl(["create", "-f", "-"], { input: JSON.stringify(object) });
  const pod = await create(machinePod(ns, "demo-7"));
  assert.match(pod.stderr, new RegExp(`machine name "vk-${ns}-demo-7" is held by Deployment ${ns}/demo`));
  // No name is reserved for a set, so it depends on what the replica that is asked has heard of.
  await eventually(async () => {
    const set = await create({
      apiVersion: "cocoonset.cocoonstack.io/v1",
      kind: "CocoonSet",
      metadata: { namespace: ns, name: "demo" },
      spec: { agent: { image: "team/base:1" } },
    });
    if (set.code === 0) await world.cluster.kubectl(["-n", ns, "delete", "cocoonset", "demo"]);
    assert.match(set.stderr, new RegExp(`is held by Deployment ${ns}/demo`));
  }, patient);
  const made = await create({
    apiVersion: "cocoonset.cocoonstack.io/v1",
    kind: "CocoonSet",
    metadata: { namespace: ns, name: "crew" },
    spec: { agent: { image: "team/base:1" } },
  });
  assert.equal(made.code, 0, made.stderr);
  let tries = 0;
  await eventually(async () => {
    const clash = await create(machinePod(ns, `crew-${tries}`));
    if (clash.code === 0) tries += 1; // the replica that was asked had not heard of the set
    assert.match(clash.stderr, new RegExp(`is held by CocoonSet ${ns}/crew`));
  }, patient);
  const entries = (await world.entries()).filter((each) => each.namespace === ns);
  assert.deepEqual(
    entries.map(({ key }) => key).toSorted(),
    [...range(tries).map((each) => `${ns}._pod.crew-${each}`), `${ns}.demo.0`].toSorted(),
  );
});

test("a rollout with the default strategy gives every replica its machine's name and node back", async () => {
  await using namespace = await world.cluster.newNamespace();
  const { name: ns } = namespace;
  await apply(world.cluster, buildDeployment(ns, { name: "roll", replicas: 2 }));
  const before = (await settled(ns, 2)).toSorted(bySlot);
  const image = "example.com/x:2";
  const set = await world.cluster.kubectl(["-n", ns, "set", "image", "deployment/roll", `agent=${image}`]);
  assert.equal(set.code, 0, set.stderr);
  const status = ["-n", ns, "rollout", "status", "deployment/roll", "--timeout=90s"];
  const rolled = await world.cluster.kubectl(status);
  assert.equal(rolled.code, 0, rolled.stderr);
  const after = (await settled(ns, 2)).toSorted(bySlot);
  assert.deepEqual(after.map(readPlace), before.map(readPlace));
  const { items } = await world.client.list(pods, { namespace: ns, signal });
  assert.deepEqual(
    items.map(({ spec }) => spec?.containers[0]?.image),
    [image, image],
  );
});

test("a dry run reserves nothing", async () => {
  await using namespace = await world.cluster.newNamespace();
  const input = JSON.stringify(machinePod(namespace.name, "idea"));
  const tried = await world.cluster.kubectl(["create", "--dry-run=server", "-f", "-"], { input });
  assert.equal(tried.code, 0, tried.stderr);
  const entries = (await world.entries()).filter((each) => each.namespace === namespace.name);
  assert.deepEqual(entries, []);
});

test("those who come while a write is under way share the next one, and nothing else is asked of the API server", async () => {
  const length = 32; // as many as the border sends at once
  const allAreThere = Promise.withResolvers<void>();
  await using border = await openBorder({
    cluster: world.cluster,
    wrapClient: (client) =>
      withMethods(client, {
        create: async (...sent) => {
          // The first write, which makes the pool's shard.
          if (sent[0].plural === configMaps.plural) await allAreThere.promise;
          return client.create(...sent);
        },
      }),
  });
  const inFlight = async () => {
    const metric = await border.metrics.getSingleMetric("cocoon_webhook_in_flight_requests")?.get();
    return metric?.values.reduce((sum, { value }) => sum + value, 0);
  };
  const before = await readRequests(border);
  const asked = range(length).map((slot) => {
    const pod = machinePod("default", `many-${slot}x`, { nodeSelector: { [nodeLabel.pool]: "many" } });
    return border.ask("/mutate", { kind: { version: "v1", kind: "Pod" }, namespace: "default", object: pod });
  });
  await eventually(async () => assert.equal(await inFlight(), length));
  allAreThere.resolve();
  const answers = await Promise.all(asked);
  assert.deepEqual(new Set(answers.map(({ allowed }) => allowed)), new Set([true]));
  const extra = [...(await readRequests(border))]
    .map(([key, count]) => ({ key, count: count - (before.get(key) ?? 0) }))
    .filter(({ count }) => count > 0);
  // A new shard, and patches that answer in short form; a look around only when the watch is late.
  const writing = ["create configmaps", "raw "];
  const asking = extra.map(({ key }) => key).filter((key) => !writing.includes(key));
  assert.deepEqual(
    asking.filter((key) => key !== "list configmaps"),
    [],
  );
  const writes = extra.filter(({ key }) => writing.includes(key)).reduce((sum, { count }) => sum + count, 0);
  assert.ok(writes <= length / 4, `${writes} writes for ${length} pods`);
});

/** What a webhook asked of the API server so far, but for watches and leases. */
async function readRequests({ metrics }: Border): Promise<Map<string, number>> {
  const metric = await metrics.getSingleMetric("kube_client_requests_total")?.get();
  const counts = new Map<string, number>();
  for (const { labels, value } of metric?.values ?? []) {
    const key = `${labels["verb"]} ${labels["resource"]}`;
    if (labels["verb"] !== "watch" && labels["resource"] !== "leases.coordination.k8s.io")
      counts.set(key, (counts.get(key) ?? 0) + value);
  }
  return counts;
}

test("a pod that is not for VM hosts is never sent here", async () => {
  await using namespace = await world.cluster.newNamespace();
  const before = await readCount("not_cocoon");
  const plain = machinePod(namespace.name, "plain", { tolerations: [{ operator: "Exists" }] });
  await apply(world.cluster, plain);
  assert.equal(await readCount("not_cocoon"), before);
  const pod = await world.client.get(pods, { namespace: namespace.name, name: "plain" }, { signal });
  assert.equal(pod.metadata.annotations?.[annotation.vmName], undefined);
});

async function readCount(reason: string): Promise<number> {
  const texts = await Promise.all(world.replicas().map((replica) => replica.metrics()));
  const pattern = new RegExp(`cocoon_webhook_admission_total\\{[^}]*reason="${reason}"[^}]*\\} (\\d+)`, "g");
  return texts.flatMap((text) => [...text.matchAll(pattern)].map(([, count]) => Number(count))).length;
}

test("a machine waits for its node, and moves when the node is gone for good", async () => {
  await using namespace = await world.cluster.newNamespace();
  const ns = namespace.name;
  await apply(world.cluster, buildDeployment(ns, { name: "demo", replicas: 3 }));
  const first = await settled(ns, 3);
  const [victim] = first.toSorted(bySlot);
  assert.ok(victim);
  await hosts.lose(victim.node);
  await eventually(async () => {
    const entry = (await world.entries()).find(({ vmName }) => vmName === victim.vmName);
    assert.equal(entry?.podUid, victim.uid);
  }, patient);
  const remove = (name: string) =>
    world.cluster.kubectl(["-n", ns, "delete", "pod", name, "--force", "--grace-period=0"]);
  await remove(victim.name);
  const waiting = await eventually(async () => {
    const found = (await listPods(world.client, ns)).find(({ vmName }) => vmName === victim.vmName);
    assert.ok(found && found.uid !== victim.uid);
    return found;
  }, patient);
  const pod = await world.client.get(pods, { namespace: ns, name: waiting.name }, { signal });
  assert.equal(pod.spec?.nodeName ?? "", "", "not forced onto a node that is away");
  assert.match(JSON.stringify(pod.spec?.affinity), new RegExp(`metadata.name.*${victim.node}`));
  await eventually(async () => {
    const { stdout } = await world.cluster.kubectl(["-n", ns, "get", "events"]);
    assert.match(stdout, /WaitsForNode/);
  }, patient);

  await world.client.delete(nodes, { name: victim.node }, { signal });
  await remove(waiting.name);
  const moved = await eventually(async () => {
    const found = (await listPods(world.client, ns)).find(({ vmName }) => vmName === victim.vmName);
    assert.ok(found && found.uid !== waiting.uid);
    // Admitted by a replica that had not heard yet that the node is gone.
    if (found.node === "" || found.node === victim.node) await remove(found.name);
    assert.ok(found.node !== "" && found.node !== victim.node, `on ${found.node}`);
    return found;
  }, patient);
  assert.notEqual(moved.node, victim.node);
});
