/** Machines of workloads: what scaling, rollouts, evictions by taints and the controllers' rounds do to them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { machinePod, mark, openWorld, runMachine, readMark, type TestVk, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const timeoutMs = 60_000;
const hibernate = "vm.cocoonstack.io/hibernate";

function deployment(node: TestVk, annotations: Readonly<Record<string, string>>): object {
  const { spec } = machinePod("x", node.name, {}) as { spec: object };
  return {
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      replicas: 1,
      // Two pods may not be one machine: the old one goes first.
      strategy: { type: "Recreate" },
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: { app: "web" }, annotations }, spec },
    },
  };
}

async function kubectl(world: World, ...args: string[]): Promise<string> {
  const done = await cluster.kubectl([...args, "-n", world.namespace.name]);
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
}

async function podNames(world: World): Promise<readonly string[]> {
  const text = await kubectl(world, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}");
  return text.split(" ").filter(Boolean);
}

async function onlyPod(world: World, state: string): Promise<string> {
  return eventually(
    async () => {
      const names = await podNames(world);
      assert.equal(names.length, 1, names.join());
      const [name = ""] = names;
      const { annotations = {} } = (await world.pod(name))?.metadata ?? {};
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], state);
      return name;
    },
    { timeoutMs },
  );
}

test("a scale-down ends the machine with its snapshot kept; a rollout boots the new image", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-web`;
  await world.apply(deployment(node, runMachine(vmName)));
  await onlyPod(world, "ready");
  const first = node.vm(vmName).vm.id;
  const image = "https://images.test/second.img";
  await world.apply(deployment(node, { ...runMachine(vmName), "cocoonset.cocoonstack.io/image": image }));
  await eventually(() => assert.notEqual(node.vm(vmName).vm.id, first), { timeoutMs });
  await onlyPod(world, "ready");
  assert.equal(node.vm(vmName).vm.config.image, image);
  const kept = await world.tagged(vmName, "latest");
  assert.ok(kept, "the machine before the rollout is kept as latest");
  await kubectl(world, "scale", "deployment", "web", "--replicas=0");
  await eventually(async () => assert.deepEqual(await podNames(world), []), { timeoutMs });
  assert.equal(node.host.vms.size, 0);
  assert.notEqual(await world.tagged(vmName, "latest"), kept, "and so is the one that was scaled away");
  assert.equal(await world.tagged(vmName, "hibernate"), undefined);
});

test("a machine whose node is lost sleeps when the node comes back, and its next pod wakes it", async () => {
  await using world = await openWorld(cluster);
  const [lost, other] = [await world.newNode(), await world.newNode()];
  const vmName = `vk-${world.namespace.name}-demo`;
  const pod = machinePod("demo", lost.name, runMachine(vmName)) as { spec: object };
  const tolerations = [{ key: "virtual-kubelet.io/provider", operator: "Exists" }];
  await world.apply({ ...pod, spec: { ...pod.spec, tolerations } });
  await onlyPod(world, "ready");
  const marked = mark(lost, vmName);
  await lost.kill();
  const taint = await cluster.kubectl(["taint", "node", lost.name, "test.io/lost=yes:NoExecute"]);
  assert.equal(taint.code, 0, taint.stderr);
  await eventually(async () => assert.ok((await world.pod("demo"))?.metadata.deletionTimestamp), {
    timeoutMs,
  });
  assert.equal(lost.vm(vmName).vm.state, "running", "the node could not be asked");
  await lost.start();
  await eventually(async () => assert.equal(await world.pod("demo"), undefined), { timeoutMs });
  assert.equal(lost.host.vms.size, 0);
  assert.ok(await world.tagged(vmName, "hibernate"));
  await world.apply(machinePod("demo", other.name, runMachine(vmName)));
  await onlyPod(world, "ready");
  assert.equal(readMark(other, vmName), marked);
});

test("a replica that sleeps stays asleep while its controllers go round: no other pod is made", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-web`;
  await world.apply(deployment(node, runMachine(vmName)));
  const pod = await onlyPod(world, "ready");
  await world.annotate(pod, `${hibernate}=true`);
  await onlyPod(world, "hibernated");
  for (let round = 0; round < 5; round += 1) {
    await kubectl(world, "annotate", "--overwrite", "deployment/web", `test.io/round=${round}`);
    await kubectl(world, "annotate", "--overwrite", "replicaset", "-l", "app=web", `test.io/round=${round}`);
    const observed = ["rollout", "history", "deployment/web"];
    await kubectl(world, ...observed);
    assert.equal(await onlyPod(world, "hibernated"), pod);
  }
  assert.equal(node.host.vms.size, 0);
  await world.annotate(pod, `${hibernate}-`);
  assert.equal(await onlyPod(world, "ready"), pod);
});
