/** Machines of agent-sandbox: the Sandbox being alive decides what the deletion of its pod means. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sandboxFinalizer } from "@cocoon/contract";
import { openKubeClient, pods } from "@cocoon/kube";
import { count, eventually, sharedControlPlane } from "@cocoon/testkit";
import { installCrds } from "../contract/install-crds.ts";
import {
  createSandbox,
  deletePod,
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

async function start(world: World, node: TestVk, name = "s1"): Promise<TestSandbox> {
  const sandbox = await createSandbox(world, name);
  await world.apply(sandboxPod(sandbox, node.name));
  await isReady(world, name);
  return sandbox;
}

/** Every version of the pod that a watcher sees. */
async function watchPhases(world: World, name: string): Promise<AsyncDisposable & { phases: Set<string> }> {
  const life = new AbortController();
  const { signal } = life;
  const client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  const phases = new Set<string>();
  const looking = (async () => {
    while (!signal.aborted) {
      const { items } = await client.list(pods, { namespace: world.namespace.name, signal });
      for (const pod of items) if (pod.metadata.name === name) phases.add(pod.status?.phase ?? "");
    }
  })().catch(() => undefined);
  return {
    phases,
    [Symbol.asyncDispose]: async () => {
      life.abort();
      await looking;
      await client[Symbol.asyncDispose]();
    },
  };
}

async function leavesNothing(world: World, { vmName }: TestSandbox): Promise<void> {
  for (const tag of ["hibernate", "hibernated", "latest", "anchor"])
    assert.equal(await world.tagged(vmName, tag), undefined, tag);
}

test("a suspended Sandbox wakes with its memory in its next pod, on another node", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const sandbox = await start(world, first);
  const marked = mark(first, sandbox.vmName);
  await using watched = await watchPhases(world, "s1");
  await deletePod(world, "s1");
  await podIsGone(world, "s1");
  assert.deepEqual([...watched.phases], ["Running"], "an ended pod would end its claim");
  assert.equal(first.host.vms.size, 0);
  assert.ok(await world.tagged(sandbox.vmName, "hibernate"));
  assert.match(await kubectl(world, ["get", "sandbox", "s1", "-o", "yaml"]), new RegExp(sandboxFinalizer));
  await world.apply(sandboxPod(sandbox, second.name));
  await isReady(world, "s1");
  assert.equal(readMark(second, sandbox.vmName), marked);
  await kubectl(world, ["delete", "sandbox", "s1"]);
  await podIsGone(world, "s1");
  assert.equal(second.host.vms.size, 0);
  await eventually(() => leavesNothing(world, sandbox), { timeoutMs });
});

test("a Sandbox that is deleted ends its machine: in the background, in the foreground, and before its push", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  for (const cascade of ["background", "foreground"]) {
    const sandbox = await start(world, node, cascade);
    await kubectl(world, ["delete", "sandbox", cascade, `--cascade=${cascade}`]);
    await podIsGone(world, cascade);
    await leavesNothing(world, sandbox);
  }
  const sandbox = await start(world, node, "late");
  node.beforeStep = async (_vmName, step) => {
    if (step !== "push") return;
    node.beforeStep = async () => undefined;
    await kubectl(world, ["delete", "sandbox", "late", "--wait=false"]);
  };
  await deletePod(world, "late");
  await podIsGone(world, "late");
  await eventually(() => leavesNothing(world, sandbox), { timeoutMs });
  assert.equal(node.host.vms.size, 0);
});

test("a Sandbox that is deleted while its machine is hibernated leaves nothing in the registry", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const sandbox = await start(world, node);
  await deletePod(world, "s1");
  await podIsGone(world, "s1");
  assert.ok(await world.tagged(sandbox.vmName, "hibernate"));
  await kubectl(world, ["delete", "sandbox", "s1", "--wait=false"]);
  assert.ok(await world.tagged(sandbox.vmName, "hibernate"), "kept while nothing settles it");
  await using _operator = await withOperator(world);
  await eventually(
    async () =>
      assert.equal(await kubectl(world, ["get", "sandbox", "s1", "--ignore-not-found", "-o", "name"]), ""),
    { timeoutMs },
  );
  await leavesNothing(world, sandbox);
});

test("a kubelet that is killed before any step of a suspension loses nothing", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  const sandbox = await start(world, node);
  const steps = ["push", "remove", "seal", "announce", "save", "record", "clearId"];
  for (const step of steps.slice(0, count({ small: 3, full: steps.length }))) {
    const marked = mark(node, sandbox.vmName);
    const killed = node.killBefore(step);
    await deletePod(world, "s1");
    await killed;
    await node.start();
    await podIsGone(world, "s1");
    assert.equal(node.host.vms.size, 0, step);
    await world.apply(sandboxPod(sandbox, node.name));
    await isReady(world, "s1");
    assert.equal(readMark(node, sandbox.vmName), marked, step);
  }
});
