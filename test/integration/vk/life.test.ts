/** The life of machines: made, shown, reached, ended. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import { machinePod, openWorld, runMachine, type PodView } from "./test-vk.ts";

const cluster = await sharedControlPlane();

function ready(pod: PodView | undefined): boolean {
  return pod?.status.conditions.find((each) => each.type === "Ready")?.status === "True";
}

test("a pod becomes a machine, is reached through the API server, and goes with its snapshot kept", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await eventually(async () => {
    const pod = await world.pod("demo");
    assert.equal(pod?.metadata.annotations["vm.cocoonstack.io/lifecycle-state"], "ready");
  });
  const pod = await world.pod("demo");
  assert.ok(ready(pod));
  const entry = node.vm(vmName);
  const { vm } = entry;
  const ip = node.host.findAddress(vm);
  assert.equal(pod?.metadata.annotations["vm.cocoonstack.io/id"], vm.id);
  assert.equal(pod?.metadata.annotations["vm.cocoonstack.io/ip"], ip);
  assert.equal(pod?.metadata.annotations["vm.cocoonstack.io/lifecycle-observed-generation"], "3");
  assert.equal(pod?.status.phase, "Running");
  assert.equal(pod?.status.podIP, ip);

  const inNamespace = ["-n", world.namespace.name];
  const ran = await cluster.kubectl(["exec", "-i", "demo", ...inNamespace, "--", "cat"], { input: "hello" });
  assert.equal(ran.stdout, "hello", ran.stderr);
  const failing = await cluster.kubectl(["exec", "demo", ...inNamespace, "--", "sh", "-c", "exit 7"]);
  assert.equal(failing.code, 7);
  node.host.print(entry, "booting\nlogin:\n");
  const logs = await cluster.kubectl(["logs", "demo", "--tail=1", ...inNamespace]);
  assert.equal(logs.stdout, "login:\n", logs.stderr);

  await cluster.kubectl(["delete", "pod", "demo", ...inNamespace, "--wait=true", "--timeout=60s"]);
  assert.equal(await world.pod("demo"), undefined);
  assert.deepEqual([...node.host.vms.keys()], []);
  assert.deepEqual(node.snapshots(), []);
  assert.ok(await world.tagged(vmName, "latest"), "the default policy keeps a snapshot");
  assert.equal(await world.tagged(vmName, "hibernate"), undefined);
});

test("a machine that takes time says that it is being made, and then that it is ready", async () => {
  await using world = await openWorld(cluster);
  await using directory = await temporaryDirectory();
  const made = Promise.withResolvers<void>();
  const host = new FakeHost({ directory: directory.path });
  class SlowRuntime extends FakeRuntime {
    override async run(...args: Parameters<FakeRuntime["run"]>): ReturnType<FakeRuntime["run"]> {
      await made.promise;
      return super.run(...args);
    }
  }
  const node = await world.newNode({ runtime: async () => new SlowRuntime(host) });
  await world.apply(machinePod("slow", node.name, runMachine(`vk-${world.namespace.name}-slow`)));
  const state = async () => {
    const annotations = (await world.pod("slow"))?.metadata.annotations ?? {};
    return annotations["vm.cocoonstack.io/lifecycle-state"];
  };
  await eventually(async () => assert.equal(await state(), "creating"));
  made.resolve();
  await eventually(async () => assert.equal(await state(), "ready"));
  assert.ok(ready(await world.pod("slow")));
});

test("a machine with a probe port is ready when that port answers", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  node.host.services.set(80, (stream) => stream.end("from the guest"));
  const vmName = `vk-${world.namespace.name}-web`;
  await world.apply(
    machinePod("web", node.name, { ...runMachine(vmName), "vm.cocoonstack.io/probe-port": "80" }),
  );
  await eventually(async () => assert.ok(ready(await world.pod("web"))));
});

test("a machine that dies is started again, and the restart is counted", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-frail`;
  await world.apply(machinePod("frail", node.name, runMachine(vmName)));
  await eventually(async () => assert.ok(ready(await world.pod("frail"))));
  node.host.kill(vmName);
  await eventually(async () => {
    assert.equal(node.vm(vmName).vm.state, "running");
    assert.equal((await world.pod("frail"))?.status.containerStatuses?.[0]?.restartCount, 1);
  });
});

test("a machine that does not stay up is started a few times, then failed with its VM kept", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode({ changes: { restartPauseMs: 100 } });
  const vmName = `vk-${world.namespace.name}-loop`;
  await world.apply(machinePod("loop", node.name, runMachine(vmName)));
  await eventually(async () => assert.ok(ready(await world.pod("loop"))));
  const started = () => node.host.calls.filter((call) => call === "start").length;
  for (let count = 0; count < 5; count += 1) {
    node.host.kill(vmName);
    await eventually(() => assert.equal(started(), count + 1));
  }
  node.host.kill(vmName);
  await eventually(async () => {
    const { phase, reason } = (await world.pod("loop"))?.status ?? {};
    assert.deepEqual({ phase, reason }, { phase: "Failed", reason: "RestartCooldown" });
  });
  assert.equal(started(), 5);
  assert.equal(node.vm(vmName).vm.state, "stopped", "its disk is still there");
});

test("a runtime that does not know the VMs which pods claim is refused, and nothing is touched", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-mine`;
  await world.apply(machinePod("mine", node.name, runMachine(vmName)));
  await eventually(async () => assert.ok(ready(await world.pod("mine"))));
  await node.kill();
  // Another command answers: it has VMs of its own, and none of ours.
  const ours = new Map(node.host.vms);
  node.host.vms.clear();
  node.host.engine = "cocoon-node";
  await assert.rejects(node.start(), /claim VMs that this runtime \(cocoon-node .*VK_COCOON_BIN/);
  await assert.rejects(node.start(), /claim VMs/, "a second start is no other");
  const pod = await world.pod("mine");
  assert.notEqual(pod?.status.phase, "Failed");
  assert.equal(pod?.metadata.annotations["vm.cocoonstack.io/id"], [...ours.keys()][0]);
  node.host.engine = "qemu";
  for (const [id, vm] of ours) node.host.vms.set(id, vm);
  await node.start();
  await eventually(async () => assert.ok(ready(await world.pod("mine"))));
});
