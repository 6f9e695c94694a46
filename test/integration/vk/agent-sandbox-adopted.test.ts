/**
 * A Sandbox that was deleted without its pod, and a new one of its name that takes the pod over, as upstream's controller does:
 * the machine keeps its name and becomes the new Sandbox's, which is suspended and resumed with that memory.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sandboxKind } from "@cocoon/contract";
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

interface Adopted {
  /** The Sandbox that the machine is named after. */
  readonly old: TestSandbox;
  readonly sandbox: TestSandbox;
  readonly marked: string;
}

async function adopt(world: World, node: TestVk, suspendFirst = false): Promise<Adopted> {
  const old = await createSandbox(world, "s1");
  await world.apply(sandboxPod(old, node.name));
  await isReady(world, "s1");
  if (suspendFirst) {
    await deletePod(world, "s1");
    await podIsGone(world, "s1");
    await world.apply(sandboxPod(old, node.name));
    await isReady(world, "s1");
  }
  const marked = mark(node, old.vmName);
  await kubectl(world, ["delete", "sandbox", "s1", "--cascade=orphan"]);
  const owners = ["get", "pod", "s1", "-o", "jsonpath={.metadata.ownerReferences[*].uid}"];
  await eventually(async () => assert.equal(await kubectl(world, owners), ""), { timeoutMs });
  const sandbox = await createSandbox(world, "s1");
  const { group, version, kind } = sandboxKind;
  const owner = { apiVersion: `${group}/${version}`, kind, name: "s1", uid: sandbox.uid, controller: true };
  const patch = JSON.stringify({ metadata: { ownerReferences: [owner] } });
  await kubectl(world, ["patch", "pod", "s1", "--type=merge", "-p", patch]);
  return { old, sandbox, marked };
}

function countVms(nodes: readonly TestVk[]): number {
  return nodes.reduce((sum, { host }) => sum + host.vms.size, 0);
}

async function leavesNothing(world: World, { old, sandbox }: Adopted): Promise<void> {
  for (const { vmName } of [old, sandbox])
    for (const tag of ["hibernate", "hibernated", "latest", "anchor"])
      assert.equal(await world.tagged(vmName, tag), undefined, `${vmName}:${tag}`);
}

for (const suspendFirst of [true, false].slice(0, count({ small: 1, full: 2 })))
  test(`a Sandbox that takes over a pod${suspendFirst ? " of one that was suspended before" : ""} has its memory after suspension, on another node`, async () => {
    await using world = await openWorld(cluster);
    await using _operator = await withOperator(world);
    const nodes = [await world.newNode(), await world.newNode()] as const;
    const adopted = await adopt(world, nodes[0], suspendFirst);
    const { sandbox, old, marked } = adopted;
    for (const node of [nodes[1], nodes[0]].slice(0, count({ small: 1, full: 2 }))) {
      await deletePod(world, "s1");
      await podIsGone(world, "s1");
      assert.equal(countVms(nodes), 0);
      await world.apply(sandboxPod(sandbox, node.name));
      await isReady(world, "s1");
      assert.equal(readMark(node, old.vmName), marked);
      assert.equal(countVms(nodes), 1);
    }
    await deletePod(world, "s1");
    await podIsGone(world, "s1");
    await kubectl(world, ["delete", "sandbox", "s1"]);
    await eventually(() => leavesNothing(world, adopted), { timeoutMs });
  });

test("a pod that was taken over and is removed by force is replaced with its memory, also by a kubelet that was away", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const nodes = [await world.newNode(), await world.newNode()] as const;
  const [first, second] = nodes;
  const { sandbox, old, marked } = await adopt(world, first);
  const recorded = ["get", "sandbox", "s1", "-o", "jsonpath={.metadata.annotations}"];
  await eventually(async () => assert.match(await kubectl(world, recorded), new RegExp(old.vmName)), {
    timeoutMs,
  });
  await first.kill();
  await kubectl(world, ["delete", "pod", "s1", "--force", "--grace-period=0", "--wait=false"]);
  await podIsGone(world, "s1");
  await world.apply(sandboxPod(sandbox, second.name));
  await first.start();
  await isReady(world, "s1");
  assert.equal(readMark(second, old.vmName), marked);
  assert.equal(countVms(nodes), 1);
  await kubectl(world, ["delete", "sandbox", "s1"]);
  await podIsGone(world, "s1");
  assert.equal(countVms(nodes), 0);
});
