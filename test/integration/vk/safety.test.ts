/** No machine is lost, doubled or taken over, whatever the world around its kubelet does. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { anchorTag } from "@cocoon/contract";
import { customResourceDefinitions } from "@cocoon/contract/crd";
import { putTestSnapshot } from "@cocoon/machine/testing";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { machinePod, mark, openWorld, runMachine, readMark, type TestVk, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const grantDefinition = customResourceDefinitions().find(
  ({ metadata }) => metadata.name === "cocoonsnapshotgrants.cocoonset.cocoonstack.io",
);
const hibernate = "vm.cocoonstack.io/hibernate";
const policy = "cocoonset.cocoonstack.io/snapshot-policy";
const timeoutMs = 60_000;

async function annotations(world: World, pod: string): Promise<Readonly<Record<string, string>>> {
  return (await world.pod(pod))?.metadata.annotations ?? {};
}

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(
    async () => assert.equal((await annotations(world, pod))["vm.cocoonstack.io/lifecycle-state"], state),
    { timeoutMs },
  );
}

async function boot(
  world: World,
  node: TestVk,
  more: Readonly<Record<string, string>> = {},
): Promise<string> {
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, { ...runMachine(vmName), ...more }));
  await reaches(world, "demo", "ready");
  return vmName;
}

async function kubectl(world: World, ...args: readonly string[]): Promise<string> {
  const done = await cluster.kubectl([...args, "-n", world.namespace.name]);
  assert.equal(done.code, 0, done.stderr);
  return done.stdout;
}

async function tags(world: World, vmName: string): Promise<readonly string[]> {
  const signal = AbortSignal.timeout(10_000);
  return Array.fromAsync(world.registry.repository(vmName).tags({ signal }));
}

test("a snapshot that the running VM does not come from is kept and reported", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node);
  await node.kill();
  const signal = AbortSignal.timeout(10_000);
  // As an older kubelet leaves it that booted fresh: no origin, no node.
  const digest = await putTestSnapshot(
    world.registry,
    { vmName, tag: "hibernate", snapshotId: "S1" },
    { signal },
  );
  await node.start();
  await eventually(async () => assert.match(await kubectl(world, "get", "events"), /ForeignSnapshotKept/), {
    timeoutMs,
  });
  assert.equal(await world.tagged(vmName, "hibernate"), digest);
  await kubectl(world, "delete", "pod", "demo", "--timeout=60s");
  assert.equal(await world.tagged(vmName, "hibernate"), digest, "a deletion does not drop it either");
});

test("hibernation of a machine whose VM is gone is refused: no empty machine is published", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node);
  await node.kill();
  node.host.vms.clear();
  await world.annotate("demo", `${hibernate}=true`);
  await node.start();
  await eventually(
    async () => {
      const { status } = (await world.pod("demo")) ?? {};
      assert.deepEqual([status?.phase, status?.reason], ["Failed", "VMGone"]);
    },
    { timeoutMs },
  );
  assert.equal(node.host.vms.size, 0);
  assert.equal(await world.tagged(vmName, "hibernate"), undefined);
});

test("a node that goes silent while it wakes a machine is fenced before another one restores it", async () => {
  await using world = await openWorld(cluster);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const vmName = await boot(world, first);
  const marked = mark(first, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  const killed = first.killBefore("restore");
  await world.annotate("demo", `${hibernate}-`);
  await killed;
  assert.ok((await tags(world, vmName)).includes(`waking-${first.name}`), "the claim comes before the VM");
  assert.equal(await world.tagged(vmName, "hibernated"), undefined, "the seal is consumed");
  await kubectl(world, "delete", "pod", "demo", "--force", "--grace-period=0");
  const annotated = { ...runMachine(vmName), "vm.cocoonstack.io/restore-from-hibernate": "true" };
  await world.apply(machinePod("demo", second.name, annotated));
  await eventually(
    async () =>
      assert.match(
        (await annotations(world, "demo"))["vm.cocoonstack.io/lifecycle-state-message"] ?? "",
        /is being restored on node/,
      ),
    { timeoutMs },
  );
  assert.equal(second.host.vms.size, 0);
  await cluster.kubectl(["taint", "node", first.name, "node.kubernetes.io/out-of-service=x:NoExecute"]);
  await reaches(world, "demo", "ready");
  assert.equal(readMark(second, vmName), marked);
  await eventually(async () => assert.deepEqual(await tags(world, vmName), [anchorTag]), { timeoutMs });
});

test("a node that stood still since its claim never runs a machine that another one took over", async () => {
  await using world = await openWorld(cluster);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const vmName = await boot(world, first);
  const marked = mark(first, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  const seen: string[] = [];
  first.host.changes.on("change", (id: string) => seen.push(first.host.vms.get(id)?.vm.state ?? "removed"));
  const goOn = first.host.hold("clone");
  await world.annotate("demo", `${hibernate}-`);
  await eventually(() => assert.ok(first.host.calls.includes("clone")), { timeoutMs });
  await cluster.kubectl(["taint", "node", first.name, "node.kubernetes.io/out-of-service=x:NoExecute"]);
  await kubectl(world, "delete", "pod", "demo", "--force", "--grace-period=0");
  const annotated = { ...runMachine(vmName), "vm.cocoonstack.io/restore-from-hibernate": "true" };
  await world.apply(machinePod("demo", second.name, annotated));
  await reaches(world, "demo", "ready");
  await eventually(async () => assert.deepEqual(await tags(world, vmName), [anchorTag]), { timeoutMs });
  goOn();
  await eventually(() => assert.ok(seen.includes("removed")), { timeoutMs });
  assert.ok(!seen.includes("running"), seen.join(", "));
  assert.equal(first.host.vms.size, 0);
  assert.equal(readMark(second, vmName), marked);
  assert.deepEqual(await tags(world, vmName), [anchorTag], "the other node's snapshots are as they were");
});

test("a wake that is called off before the restore gives its claim back", async () => {
  await using world = await openWorld(cluster);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const vmName = await boot(world, first, { [policy]: "never" });
  const marked = mark(first, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  const killed = first.killBefore("restore");
  await world.annotate("demo", `${hibernate}-`);
  await killed;
  await kubectl(world, "delete", "pod", "demo", "--wait=false");
  await first.start();
  await eventually(async () => assert.equal(await world.pod("demo"), undefined), { timeoutMs });
  assert.deepEqual([...(await tags(world, vmName))].sort(), ["hibernate", "hibernated"]);
  assert.deepEqual(first.snapshots(), [], "nothing is left on the node");
  await world.apply(machinePod("demo", second.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  assert.equal(readMark(second, vmName), marked);
});

test("the last copy is renamed, not dropped, when the pod goes right after a wake", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node, { [policy]: "never" });
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  const digest = await world.tagged(vmName, "hibernate");
  const killed = node.killBefore("dropTag");
  await world.annotate("demo", `${hibernate}-`);
  await killed;
  await kubectl(world, "delete", "pod", "demo", "--wait=false");
  await node.start();
  await eventually(async () => assert.equal(await world.pod("demo"), undefined), { timeoutMs });
  assert.equal(node.host.vms.size, 0);
  const [tag = "", ...others] = await tags(world, vmName);
  assert.match(tag, /^released-/);
  assert.deepEqual(others, []);
  assert.equal(await world.tagged(vmName, tag), digest);
});

test("a pod that a client force-deletes leaves a verified snapshot, whatever the policy", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node, { [policy]: "never" });
  await kubectl(world, "delete", "pod", "demo", "--force", "--grace-period=0");
  await eventually(() => assert.equal(node.host.vms.size, 0), { timeoutMs });
  assert.ok(await world.tagged(vmName, "latest"));
});

test("a VM that cannot boot is deleted under policy always: its disks are kept as they are", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node, { [policy]: "always" });
  await node.kill();
  node.host.kill(vmName);
  for (let attempt = 0; attempt < 50; attempt += 1)
    node.host.failNext("start", "internal", "no bootable device");
  await node.start();
  await kubectl(world, "delete", "pod", "demo", "--timeout=60s");
  assert.equal(node.host.vms.size, 0);
  assert.ok(await world.tagged(vmName, "latest"));
});

test("a pod that disappears while its node is fenced leaves the VM alone, and a new pod adopts it", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node, { [policy]: "never" });
  const marked = mark(node, vmName);
  await cluster.kubectl(["taint", "node", node.name, "node.kubernetes.io/out-of-service=x:NoSchedule"]);
  await kubectl(world, "delete", "pod", "demo", "--force", "--grace-period=0");
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  assert.equal(readMark(node, vmName), marked);
});

test("a pod with the name of another namespace's machine neither adopts nor ends it", async () => {
  await using world = await openWorld(cluster);
  await using other = await cluster.newNamespace();
  const node = await world.newNode();
  const vmName = await boot(world, node);
  const marked = mark(node, vmName);
  const thief = {
    ...machinePod("thief", node.name, runMachine(vmName)),
    metadata: { name: "thief", namespace: other.name, annotations: runMachine(vmName) },
  };
  const applied = await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(thief) });
  assert.equal(applied.code, 0, applied.stderr);
  await eventually(
    async () => {
      const shown = await cluster.kubectl(["get", "pod", "thief", "-n", other.name, "-o", "json"]);
      assert.match(shown.stdout, /is not a name of namespace/);
    },
    { timeoutMs },
  );
  await cluster.kubectl(["delete", "pod", "thief", "-n", other.name, "--timeout=60s"]);
  assert.equal(readMark(node, vmName), marked);
  assert.equal(node.vm(vmName).vm.state, "running");
});

test("a hibernated machine that is deleted leaves nothing on the node", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = await boot(world, node);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  assert.deepEqual(node.snapshots(), [vmName], "kept for a wake on the same node");
  await kubectl(world, "delete", "pod", "demo", "--timeout=60s");
  assert.deepEqual(node.snapshots(), []);
  assert.ok(await world.tagged(vmName, "hibernate"));
});

test("a machine of another namespace is cloned only with a grant", async () => {
  await using world = await openWorld(cluster);
  await using other = await cluster.newNamespace();
  const node = await world.newNode();
  const vmName = await boot(world, node);
  const marked = mark(node, vmName);
  await world.annotate("demo", `${hibernate}=true`);
  await reaches(world, "demo", "hibernated");
  const copyName = `vk-${other.name}-copy`;
  const readAnnotations = (more: Readonly<Record<string, string>>) => ({ ...runMachine(copyName), ...more });
  const clone = readAnnotations({
    "cocoonset.cocoonstack.io/mode": "clone",
    "cocoonset.cocoonstack.io/image": `${vmName}:hibernate`,
  });
  const apply = async (object: object) => {
    const applied = await cluster.kubectl(["apply", "-f", "-"], { input: JSON.stringify(object) });
    assert.equal(applied.code, 0, applied.stderr);
  };
  assert.ok(grantDefinition);
  await apply(grantDefinition);
  const established = ["wait", "--for=condition=Established", `crd/${grantDefinition.metadata.name}`];
  assert.equal((await cluster.kubectl([...established, "--timeout=60s"])).code, 0);
  const pod = {
    ...machinePod("copy", node.name, clone),
    metadata: { name: "copy", namespace: other.name, annotations: clone },
  };
  await apply(pod);
  const shown = async () =>
    (await cluster.kubectl(["get", "pod", "copy", "-n", other.name, "-o", "json"])).stdout;
  await eventually(async () => assert.match(await shown(), /create a CocoonSnapshotGrant/), { timeoutMs });
  assert.equal(node.host.vms.size, 0);

  await eventually(async () => {
    const spec = { namespaces: [other.name] };
    const grant = { apiVersion: "cocoonset.cocoonstack.io/v1", kind: "CocoonSnapshotGrant", spec };
    await apply({ ...grant, metadata: { name: "to-other", namespace: world.namespace.name } });
  });
  await eventually(async () => assert.match(await shown(), /lifecycle-state":\s*"ready"/), { timeoutMs });
  assert.equal(readMark(node, copyName), marked);
});
