/** The races between upstream's controller of agent-sandbox and the kubelet: what each order leaves of a machine. */
import assert from "node:assert/strict";
import { test } from "node:test";
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
import { mark, openWorld, readMark, type PodView, type TestVk, type World } from "./test-vk.ts";

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

async function forceDelete(world: World, name: string): Promise<void> {
  await kubectl(world, ["delete", "pod", name, "--force", "--grace-period=0", "--wait=false"]);
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

test("a Sandbox that ends before any step of its suspension leaves nothing", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  const steps = ["save", "push", "remove", "record", "clearId", "seal", "announce"];
  for (const [index, step] of steps.slice(0, count({ small: 3, full: steps.length })).entries()) {
    const name = `s${index}`;
    const sandbox = await start(world, node, name);
    node.beforeStep = async (_vmName, next) => {
      if (next !== step) return;
      node.beforeStep = async () => undefined;
      await kubectl(world, ["delete", "sandbox", name, "--wait=false"]);
    };
    await deletePod(world, name);
    await podIsGone(world, name);
    await eventually(
      async () => {
        assert.equal(await world.tagged(sandbox.vmName, "hibernate"), undefined, step);
        assert.equal(await kubectl(world, ["get", "sandbox", name, "--ignore-not-found", "-o", "name"]), "");
      },
      { timeoutMs },
    );
    assert.equal(node.host.vms.size, 0, step);
  }
});

test("a pod that is force-deleted is not replaced by an empty machine on another node", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const sandbox = await start(world, first);
  const held = Promise.withResolvers<void>();
  first.beforeStep = async (_vmName, step) => {
    if (step === "push") await held.promise;
  };
  await forceDelete(world, "s1");
  await podIsGone(world, "s1");
  await world.apply(sandboxPod(sandbox, second.name));
  await says(world, "s1", /last on node/);
  assert.equal(second.host.vms.size, 0, "no empty machine in its place");
  held.resolve();
});

test("a node that is lost keeps its machine: the next pod waits for it, until it is fenced", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const sandbox = await start(world, first);
  await first.kill();
  await forceDelete(world, "s1");
  await world.apply(sandboxPod(sandbox, second.name));
  await says(world, "s1", /out-of-service taint/);
  assert.equal(second.host.vms.size, 0);
  const taint = "node.kubernetes.io/out-of-service=down:NoExecute";
  assert.equal((await cluster.kubectl(["taint", "node", first.name, taint])).code, 0);
  await isReady(world, "s1");
});

test("a pod that is evicted hibernates its machine while its Sandbox lives, and ends it with its Sandbox", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const [first, second] = [await world.newNode(), await world.newNode()];
  const sandbox = await start(world, first);
  const marked = mark(first, sandbox.vmName);
  const evict = async () => {
    const path = `/api/v1/namespaces/${world.namespace.name}/pods/s1/eviction`;
    const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: "s1" } };
    const done = await cluster.kubectl(["create", "--raw", path, "-f", "-"], {
      input: JSON.stringify(eviction),
    });
    assert.equal(done.code, 0, done.stderr);
  };
  await evict();
  await podIsGone(world, "s1");
  await world.apply(sandboxPod(sandbox, second.name));
  await isReady(world, "s1");
  assert.equal(readMark(second, sandbox.vmName), marked);
  second.beforeStep = async (_vmName, step) => {
    if (step !== "push") return;
    second.beforeStep = async () => undefined;
    await kubectl(world, ["delete", "sandbox", "s1", "--wait=false"]);
  };
  await evict();
  await podIsGone(world, "s1");
  assert.equal(second.host.vms.size, 0);
  await eventually(async () => assert.equal(await world.tagged(sandbox.vmName, "hibernate"), undefined), {
    timeoutMs,
  });
});

test("a pod whose Sandbox is deleted without it keeps its machine, until it is deleted itself", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  const sandbox = await start(world, node);
  const marked = mark(node, sandbox.vmName);
  await kubectl(world, ["delete", "sandbox", "s1", "--cascade=orphan"]);
  const isBare = async () => {
    const owner = ["get", "pod", "s1", "-o", "jsonpath={.metadata.ownerReferences}"];
    assert.equal(await kubectl(world, owner), "");
  };
  await eventually(isBare, { timeoutMs });
  await node.kill();
  await node.start();
  await isReady(world, "s1");
  assert.equal(readMark(node, sandbox.vmName), marked);
  await deletePod(world, "s1");
  await podIsGone(world, "s1");
  assert.equal(node.host.vms.size, 0);
});

test("a Sandbox that is created again under its name is another machine", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  const old = await start(world, node);
  mark(node, old.vmName);
  await kubectl(world, ["delete", "sandbox", "s1"]);
  await podIsGone(world, "s1");
  const fresh = await start(world, node);
  assert.notEqual(fresh.vmName, old.vmName);
  assert.equal(readMark(node, fresh.vmName), undefined);
});

test("a template that changes its image while suspended boots, and what was hibernated is kept aside", async () => {
  await using world = await openWorld(cluster);
  await using _operator = await withOperator(world);
  const node = await world.newNode();
  const sandbox = await start(world, node);
  mark(node, sandbox.vmName);
  await deletePod(world, "s1");
  await podIsGone(world, "s1");
  const changed = sandboxPod(sandbox, node.name) as { metadata: { annotations: Record<string, string> } };
  changed.metadata.annotations["cocoonset.cocoonstack.io/image"] = "https://images.test/other.img";
  await world.apply(changed);
  await isReady(world, "s1");
  assert.equal(readMark(node, sandbox.vmName), undefined, "booted");
  const tags = await Array.fromAsync(
    world.registry.repository(sandbox.vmName).tags({ signal: AbortSignal.timeout(10_000) }),
  );
  assert.ok(
    tags.some((tag) => tag.startsWith("released-")),
    tags.join(" "),
  );
});

test("a Sandbox whose namespace is long has a machine like any other", async () => {
  const name = `sandboxes-with-a-long-name-${Date.now().toString(36)}`;
  assert.equal((await cluster.kubectl(["create", "namespace", name])).code, 0);
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const inside: World = {
    ...world,
    namespace: { ...world.namespace, name },
    pod: async (pod) => {
      const shown = await cluster.kubectl([
        "get",
        "pod",
        pod,
        "-n",
        name,
        "--ignore-not-found",
        "-o",
        "json",
      ]);
      return shown.stdout === "" ? undefined : (JSON.parse(shown.stdout) as PodView);
    },
    apply: async (object) => {
      const applied = await cluster.kubectl(["create", "-n", name, "-f", "-"], {
        input: JSON.stringify(object),
      });
      assert.equal(applied.code, 0, applied.stderr);
    },
  };
  const sandbox = await start(inside, node);
  assert.ok(sandbox.vmName.length <= 63, sandbox.vmName);
  const marked = mark(node, sandbox.vmName);
  await deletePod(inside, "s1");
  await podIsGone(inside, "s1");
  await inside.apply(sandboxPod(sandbox, node.name));
  await isReady(inside, "s1");
  assert.equal(readMark(node, sandbox.vmName), marked);
  await using _operator = await withOperator(inside);
  assert.equal((await cluster.kubectl(["delete", "namespace", name, "--timeout=180s"])).code, 0);
  assert.equal(node.host.vms.size, 0, "a namespace that is deleted ends its machines");
});
