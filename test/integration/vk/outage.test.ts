/** What goes wrong around machines: the API server is away, the controllers begin anew. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sleep } from "@cocoon/core";
import { eventually, fullTierOnly, ownControlPlane } from "@cocoon/testkit";
import { machinePod, mark, openWorld, runMachine, readMark, type World } from "./test-vk.ts";

const timeoutMs = 120_000;
const awayMs = 120_000;
const hibernate = "vm.cocoonstack.io/hibernate";

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod(pod))?.metadata ?? {};
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], state);
    },
    { timeoutMs },
  );
}

async function apiServerAway(): Promise<void> {
  await using cluster = await ownControlPlane();
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const formatVmName = (name: string) => `vk-${world.namespace.name}-${name}`;
  for (const name of ["calm", "frail"]) {
    await world.apply(machinePod(name, node.name, runMachine(formatVmName(name))));
    await reaches(world, name, "ready");
  }
  const marked = mark(node, formatVmName("calm"));
  const { id, epoch } = node.vm(formatVmName("calm")).vm;
  await cluster.stop("kube-apiserver", { hard: true });
  node.host.kill(formatVmName("frail"));
  await eventually(() => assert.equal(node.vm(formatVmName("frail")).vm.state, "running"), { timeoutMs });
  await sleep(awayMs, { signal: new AbortController().signal });
  const calm = node.vm(formatVmName("calm")).vm;
  assert.deepEqual([calm.id, calm.epoch, calm.state], [id, epoch, "running"]);
  assert.ok(!node.host.calls.includes("remove"));
  await cluster.start();
  await eventually(
    async () => {
      assert.equal((await world.pod("frail"))?.status.containerStatuses?.[0]?.restartCount, 1);
      const ready = [
        "get",
        "node",
        node.name,
        "-o",
        'jsonpath={.status.conditions[?(@.type=="Ready")].status}',
      ];
      assert.equal((await cluster.kubectl(ready)).stdout, "True");
    },
    { timeoutMs },
  );
  await world.annotate("calm", `${hibernate}=true`);
  await reaches(world, "calm", "hibernated");
  await world.annotate("calm", `${hibernate}-`);
  await reaches(world, "calm", "ready");
  assert.equal(readMark(node, formatVmName("calm")), marked);
}

async function controllersBeginAnew(): Promise<void> {
  await using cluster = await ownControlPlane();
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-web`;
  const { spec } = machinePod("x", node.name, {}) as { spec: object };
  await world.apply({
    apiVersion: "apps/v1",
    kind: "Deployment",
    metadata: { name: "web" },
    spec: {
      replicas: 1,
      selector: { matchLabels: { app: "web" } },
      template: { metadata: { labels: { app: "web" }, annotations: runMachine(vmName) }, spec },
    },
  });
  const names = async () => {
    const listed = ["get", "pods", "-n", world.namespace.name, "-o", "jsonpath={.items[*].metadata.name}"];
    return (await cluster.kubectl(listed)).stdout;
  };
  const pod = await eventually(
    async () => {
      const name = await names();
      assert.match(name, /^\S+$/);
      return name;
    },
    { timeoutMs },
  );
  await reaches(world, pod, "ready");
  await world.annotate(pod, `${hibernate}=true`);
  await reaches(world, pod, "hibernated");
  for (let round = 0; round < 3; round += 1) {
    await cluster.stop("kube-controller-manager", { hard: true });
    await cluster.start();
    // The controllers have seen this deployment again once they observed its newest generation.
    const patch = JSON.stringify({ spec: { minReadySeconds: round + 1 } });
    await cluster.kubectl(["patch", "deployment", "web", "-n", world.namespace.name, "-p", patch]);
    await eventually(
      async () => {
        const text = await cluster.kubectl([
          "get",
          "deployment",
          "web",
          "-n",
          world.namespace.name,
          "-o",
          "jsonpath={.metadata.generation} {.status.observedGeneration}",
        ]);
        const [wanted, observed] = text.stdout.split(" ");
        assert.equal(observed, wanted);
      },
      { timeoutMs },
    );
    assert.equal(await names(), pod);
  }
  assert.equal(node.host.vms.size, 0);
}

const slow = fullTierOnly("waits for minutes by its nature");
test(
  "the API server is away for two minutes: machines go on, and what happened is caught up",
  slow,
  apiServerAway,
);
test(
  "a replica that sleeps outlives its controllers' restarts: no other pod is made",
  slow,
  controllersBeginAnew,
);
