/** How machines end, move, and survive: deletions, disruptions, other nodes, restarts. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, eventually, sharedControlPlane } from "@cocoon/testkit";
import { machinePod, mark, openWorld, runMachine, readMark, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const hibernate = "vm.cocoonstack.io/hibernate";
const timeoutMs = 60_000;

async function lifecycle(world: World, pod: string) {
  const { annotations = {} } = (await world.pod(pod))?.metadata ?? {};
  return {
    state: annotations["vm.cocoonstack.io/lifecycle-state"],
    message: annotations["vm.cocoonstack.io/lifecycle-state-message"] ?? "",
  };
}

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(async () => assert.equal((await lifecycle(world, pod)).state, state), { timeoutMs });
}

async function gone(world: World, pod: string): Promise<void> {
  await eventually(async () => assert.equal(await world.pod(pod), undefined), { timeoutMs });
}

test("an evicted machine sleeps instead of ending, and its next pod wakes it", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-demo`;
  const pod = machinePod("demo", node.name, runMachine(vmName));
  await world.apply(pod);
  await reaches(world, "demo", "ready");
  const marked = mark(node, vmName);
  const eviction = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { name: "demo", namespace: world.namespace.name },
  };
  const evicted = await cluster.kubectl(
    ["create", "--raw", `/api/v1/namespaces/${world.namespace.name}/pods/demo/eviction`, "-f", "-"],
    { input: JSON.stringify(eviction) },
  );
  assert.equal(evicted.code, 0, evicted.stderr);
  await gone(world, "demo");
  assert.equal(node.host.vms.size, 0);
  assert.ok(await world.tagged(vmName, "hibernate"));
  await world.apply(pod);
  await reaches(world, "demo", "ready");
  assert.equal(readMark(node, vmName), marked);
});

test("policy never: the machine goes without a snapshot; a failed push keeps it", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const policy = "cocoonset.cocoonstack.io/snapshot-policy";
  for (const name of ["never", "always"]) {
    const vmName = `vk-${world.namespace.name}-${name}`;
    await world.apply(machinePod(name, node.name, { ...runMachine(vmName), [policy]: name }));
    await reaches(world, name, "ready");
  }
  await cluster.kubectl(["delete", "pod", "never", "-n", world.namespace.name]);
  await gone(world, "never");
  assert.equal(await world.tagged(`vk-${world.namespace.name}-never`, "latest"), undefined);
  assert.equal(node.host.vms.size, 1);
  await world.server.stop();
  await cluster.kubectl(["delete", "pod", "always", "-n", world.namespace.name, "--wait=false"]);
  await eventually(
    async () => {
      const told = await cluster.kubectl(["get", "events", "-n", world.namespace.name]);
      assert.match(told.stdout, /ProviderDeleteFailed/);
    },
    { timeoutMs },
  );
  const left = [...node.host.vms.values()].map(({ vm }) => `${vm.name} ${vm.state}`);
  assert.ok(left.includes(`vk-${world.namespace.name}-always running`), left.join());
});

test("a machine that sleeps wakes on another node where it was", async () => {
  await using world = await openWorld(cluster);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", first.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  const marked = mark(first, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name]);
  await world.apply(machinePod("demo", second.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  assert.equal(readMark(second, vmName), marked);
  assert.equal(first.host.vms.size, 0);
  await eventually(async () => assert.equal(await world.tagged(vmName, "hibernate"), undefined));
});

test("a machine of a lost node waits for the fence, then exactly one copy runs, also when the node comes back", async () => {
  await using world = await openWorld(cluster);
  const [lost, other] = [await world.newNode(), await world.newNode()];
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", lost.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  const killed = lost.killBefore("remove");
  await world.annotate("demo", `${hibernate}=true`);
  await killed;
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name, "--force", "--grace-period=0"]);
  await world.apply(machinePod("demo", other.name, runMachine(vmName)));
  await eventually(async () =>
    assert.match((await lifecycle(world, "demo")).message, /has not confirmed that its VM is gone/),
  );
  assert.equal(other.host.vms.size, 0);
  await cluster.kubectl(["taint", "node", lost.name, "node.kubernetes.io/out-of-service=x:NoExecute"]);
  await reaches(world, "demo", "ready");
  lost.host.change(lost.vm(vmName), { state: "running" });
  await lost.start();
  await eventually(() => {
    assert.equal(lost.running().length, 0);
    assert.equal(other.running().length, 1);
  });
});

test("a lost node that comes back lets go of a VM that went on elsewhere from exactly where it stands", async () => {
  await using world = await openWorld(cluster);
  const [lost, other] = [await world.newNode(), await world.newNode()];
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", lost.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  const marked = mark(lost, vmName);
  const killed = lost.killBefore("remove");
  await world.annotate("demo", `${hibernate}=true`);
  await killed;
  assert.equal(lost.vm(vmName).vm.state, "paused");
  await cluster.kubectl(["delete", "pod", "demo", "-n", world.namespace.name, "--force", "--grace-period=0"]);
  await cluster.kubectl(["taint", "node", lost.name, "node.kubernetes.io/out-of-service=x:NoExecute"]);
  await world.apply(machinePod("demo", other.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  await lost.start();
  assert.equal(lost.host.vms.size, 0);
  assert.deepEqual(lost.snapshots(), []);
  assert.equal(readMark(other, vmName), marked);
});

test("a restart adopts every machine and restarts none", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const machines = count({ small: 3, full: 20 });
  const names = Array.from({ length: machines }, (_each, index) => `m${index}`);
  for (const name of names)
    await world.apply(machinePod(name, node.name, runMachine(`vk-${world.namespace.name}-${name}`)));
  for (const name of names) await reaches(world, name, "ready");
  const before = [...node.host.vms.values()].map(({ vm }) => `${vm.id} ${vm.epoch}`);
  await node.kill();
  node.host.calls.length = 0;
  await node.start();
  await eventually(() =>
    assert.equal(node.steps.filter((step) => step === "settled").length >= 2 * machines, true),
  );
  assert.deepEqual(
    [...node.host.vms.values()].map(({ vm }) => `${vm.id} ${vm.epoch}`),
    before,
  );
  const disturbing = /^(run|clone|start|remove|stop|snapshots\.save|pause|resume)$/;
  assert.deepEqual(
    node.host.calls.filter((call) => disturbing.test(call)),
    [],
  );
});

test("a VM list that fails stops the start of a node whose VMs pods claim, and touches no machine", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  await world.apply(machinePod("demo", node.name, runMachine(`vk-${world.namespace.name}-demo`)));
  await reaches(world, "demo", "ready");
  const before = [...node.host.vms.values()].map(({ vm }) => `${vm.id} ${vm.epoch}`);
  await node.kill();
  await cluster.kubectl(["delete", "node", node.name]);
  node.host.failNext("list", "unavailable", "cannot list");
  await assert.rejects(node.start(), /cannot list/);
  await node.start();
  await eventually(() => assert.ok(node.steps.filter((step) => step === "settled").length >= 2));
  assert.deepEqual(
    [...node.host.vms.values()].map(({ vm }) => `${vm.id} ${vm.epoch}`),
    before,
  );
});

test("a static machine is shown and never touched; one without address is refused", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const annotations = {
    "vm.cocoonstack.io/name": `vk-${world.namespace.name}-static`,
    "cocoonset.cocoonstack.io/mode": "static",
    "vm.cocoonstack.io/id": "theirs",
    "vm.cocoonstack.io/ip": "10.1.2.3",
  };
  await world.apply(machinePod("static", node.name, annotations));
  await reaches(world, "static", "ready");
  assert.equal((await world.pod("static"))?.status.podIP, "10.1.2.3");
  const { "vm.cocoonstack.io/ip": _ip, ...incomplete } = annotations;
  await world.apply(machinePod("bad", node.name, incomplete));
  await reaches(world, "bad", "failed");
  assert.match((await lifecycle(world, "bad")).message, /missing pre-assigned IP/);
  await cluster.kubectl(["delete", "pod", "static", "bad", "-n", world.namespace.name]);
  await gone(world, "static");
  assert.deepEqual(
    node.host.calls.filter((call) => /^(remove|snapshots\.save|run|clone)$/.test(call)),
    [],
  );
});

test("sub-agents are forked from the main machine", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const main = `vk-${world.namespace.name}-set-0`;
  const sub = `vk-${world.namespace.name}-set-1`;
  await world.apply(machinePod("set-0", node.name, runMachine(main)));
  await reaches(world, "set-0", "ready");
  const marked = mark(node, main);
  await world.apply(
    machinePod("set-1", node.name, { ...runMachine(sub), "vm.cocoonstack.io/fork-from": main }),
  );
  await reaches(world, "set-1", "ready");
  assert.equal(readMark(node, sub), marked);
});
