/**
 * Pods of Sandboxes that are removed by force: the controller makes the next one in the same second, on any node, while the VM
 * still runs on the node of the old one. The next pod has the machine as it was, never an empty one in its place.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { count, eventually, sharedControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import {
  createSandbox,
  installSandboxes,
  isReady,
  kubectl,
  podIsGone,
  sandboxPod,
  type TestSandbox,
  withOperator,
} from "./agent-sandbox.ts";
import { mark, openWorld, readMark, type TestVk, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const timeoutMs = 180_000;

await installCrds(cluster);
await installSandboxes(cluster);

interface Started {
  readonly sandbox: TestSandbox;
  readonly marked: string;
}

async function start(world: World, node: TestVk, name = "s1"): Promise<Started> {
  const sandbox = await createSandbox(world, name);
  await world.apply(sandboxPod(sandbox, node.name));
  await isReady(world, name);
  return { sandbox, marked: mark(node, sandbox.vmName) };
}

/** As `kubectl delete --force --grace-period=0`, and the controller's next pod in the same second. */
async function replaceByForce(world: World, sandbox: TestSandbox, node: TestVk): Promise<void> {
  await kubectl(world, ["delete", "pod", sandbox.name, "--force", "--grace-period=0", "--wait=false"]);
  await podIsGone(world, sandbox.name);
  await world.apply(sandboxPod(sandbox, node.name));
}

async function says(world: World, name: string, pattern: RegExp): Promise<void> {
  await eventually(
    async () => {
      const annotations = (await world.pod(name))?.metadata.annotations;
      assert.match(annotations?.["vm.cocoonstack.io/lifecycle-state-message"] ?? "", pattern);
    },
    { timeoutMs },
  );
}

async function continues(world: World, { sandbox, marked }: Started, nodes: readonly TestVk[]) {
  await isReady(world, sandbox.name);
  const holders = nodes.filter((node) =>
    [...node.host.vms.values()].some(({ vm }) => vm.name === sandbox.vmName),
  );
  assert.equal(holders.length, 1, "one VM");
  const [holder] = holders;
  assert.ok(holder);
  assert.equal(readMark(holder, sandbox.vmName), marked, "with its memory");
  return holder;
}

test("a pod that is force-deleted is replaced with its memory, on its own node and on another", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  for (const [index, next] of nodes.entries()) {
    const started = await start(world, nodes[0], `s${index}`);
    await replaceByForce(world, started.sandbox, next);
    assert.equal(await continues(world, started, nodes), next);
  }
});

test("a kubelet that is away while its pod is force-deleted gives the VM to the next pod as it runs", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  const started = await start(world, node);
  const { vmName } = started.sandbox;
  const { id } = node.vm(vmName).vm;
  await node.kill();
  await replaceByForce(world, started.sandbox, node);
  await node.start();
  await continues(world, started, [node]);
  assert.equal(node.vm(vmName).vm.id, id, "adopted in place");
});

test("a kubelet that was away while its pod was replaced on another node hands the machine over when it is back", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  const [first, second] = nodes;
  const started = await start(world, first);
  await first.kill();
  await replaceByForce(world, started.sandbox, second);
  await says(world, "s1", /last on node/);
  assert.equal(second.host.vms.size, 0, "no empty machine in its place");
  await first.start();
  assert.equal(await continues(world, started, nodes), second);
});

test("a Sandbox that is suspended while its kubelet is away and its pod is force-deleted is hibernated when that is back", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  const [first, second] = nodes;
  const started = await start(world, first);
  const { sandbox } = started;
  await first.kill();
  await kubectl(world, ["delete", "pod", "s1", "--force", "--grace-period=0", "--wait=false"]);
  await podIsGone(world, "s1");
  await first.start();
  await eventually(() => assert.equal(first.host.vms.size, 0), { timeoutMs });
  assert.ok(await world.tagged(sandbox.vmName, "hibernate"));
  await world.apply(sandboxPod(sandbox, second.name));
  assert.equal(await continues(world, started, nodes), second);
});

test("a pod that the garbage collector removes from a node that lives is replaced with its memory on another", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  const [first, second] = nodes;
  const started = await start(world, first);
  const collected = {
    type: "DisruptionTarget",
    status: "True",
    reason: "DeletionByPodGC",
    lastTransitionTime: new Date().toISOString(),
  };
  const patch = JSON.stringify({ status: { conditions: [collected] } });
  await kubectl(world, ["patch", "pod", "s1", "--subresource=status", "--type=strategic", "-p", patch]);
  await replaceByForce(world, started.sandbox, second);
  assert.equal(await continues(world, started, nodes), second);
});

test("a kubelet that is killed before any step of such a hibernation loses nothing", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  const [first] = nodes;
  const steps = ["push", "remove", "seal", "save", "record", "clearId", "announce"];
  for (const [index, step] of steps.slice(0, count({ small: 3, full: steps.length })).entries()) {
    const started = await start(world, first, `s${index}`);
    const next = nodes[index % 2] ?? first;
    const killed = first.killBefore(step);
    await replaceByForce(world, started.sandbox, next);
    await killed;
    await first.start();
    assert.equal(await continues(world, started, nodes), next, step);
    await kubectl(world, ["delete", "sandbox", started.sandbox.name]);
    await podIsGone(world, started.sandbox.name);
  }
});

test("a Sandbox that was deleted while its kubelet was away is no reason to remove its VM, which is reported", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode({ changes: { orphanPolicy: "alert" } });
  const { sandbox } = await start(world, node);
  await node.kill();
  await kubectl(world, ["delete", "pod", "s1", "--force", "--grace-period=0", "--wait=false"]);
  await kubectl(world, ["delete", "sandbox", "s1"]);
  await node.start();
  await eventually(
    async () => {
      const shown = await cluster.kubectl(["get", "node", node.name, "-o", "json"]);
      assert.match(shown.stdout, new RegExp(`machines": "[^"]*${sandbox.vmName}`));
    },
    { timeoutMs },
  );
  assert.equal(node.host.vms.size, 1);
});

test("a policy that removes orphans keeps the VM of a Sandbox that lives", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode({ changes: { orphanPolicy: "destroy" } });
  const started = await start(world, node);
  await node.kill();
  await kubectl(world, ["delete", "pod", "s1", "--force", "--grace-period=0", "--wait=false"]);
  await podIsGone(world, "s1");
  await node.start();
  await eventually(async () => assert.ok(await world.tagged(started.sandbox.vmName, "hibernate")), {
    timeoutMs,
  });
  await world.apply(sandboxPod(started.sandbox, node.name));
  await continues(world, started, [node]);
});
