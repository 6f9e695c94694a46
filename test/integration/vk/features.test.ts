/** What machines do by themselves and on request: liveness, idleness, lists for older controllers, refusals. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry } from "@cocoon/core";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { machinePod, openWorld, runMachine, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const timeoutMs = 60_000;

async function annotationOf(world: World, pod: string, key: string): Promise<string | undefined> {
  return (await world.pod(pod))?.metadata.annotations[key];
}

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(
    async () => assert.equal(await annotationOf(world, pod, "vm.cocoonstack.io/lifecycle-state"), state),
    { timeoutMs },
  );
}

function podWith(name: string, node: string, container: object): Record<string, unknown> {
  const pod = machinePod(name, node, runMachine(`vk-${name}`)) as { spec: object };
  return { ...pod, spec: { ...pod.spec, containers: [{ name: "agent", image: "demo", ...container }] } };
}

test("a machine whose livenessProbe fails is reset in place, and that is counted", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode({ changes: { livenessSecondMs: 20 } });
  node.host.services.set(8080, (stream) => stream.end());
  const livenessProbe = { tcpSocket: { port: 8080 }, periodSeconds: 1, failureThreshold: 2 };
  await world.apply(podWith(`live-${world.namespace.name}`, node.name, { livenessProbe }));
  const pod = `live-${world.namespace.name}`;
  await reaches(world, pod, "ready");
  const { id, epoch } = node.vm(`vk-${pod}`).vm;
  node.host.services.delete(8080);
  await eventually(() => assert.notEqual(node.vm(`vk-${pod}`).vm.epoch, epoch), { timeoutMs });
  node.host.services.set(8080, (stream) => stream.end());
  assert.equal(node.vm(`vk-${pod}`).vm.id, id, "the same VM");
  await eventually(
    async () => {
      const status = (await world.pod(pod))?.status;
      assert.ok((status?.containerStatuses?.[0]?.restartCount ?? 0) > 0);
      assert.equal(status?.conditions.find(({ type }) => type === "Ready")?.status, "True");
    },
    { timeoutMs },
  );
  assert.ok(!node.host.calls.includes("remove"));
  await eventually(async () => {
    const events = await cluster.kubectl(["get", "events", "-n", world.namespace.name]);
    assert.match(events.stdout, /Unhealthy +pod\/live.* Liveness probe failed/);
  });
});

test("since when a machine is idle stands on its pod, until somebody uses it", async () => {
  await using world = await openWorld(cluster);
  const metrics = createRegistry("test");
  const node = await world.newNode({ changes: { metrics, idle: { sampleMs: 100, cpuPercent: 2 } } });
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  const idleSince = () => annotationOf(world, "demo", "vm.cocoonstack.io/idle-since");
  const since = await eventually(async () => {
    const text = await idleSince();
    assert.match(text ?? "", /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/);
    return text;
  });
  const labels = `vm="${vmName}",pod="demo",namespace="${world.namespace.name}",backend=""`;
  const scraped = await metrics.metrics();
  assert.ok(scraped.includes(`vk_cocoon_vm_cpu_seconds_total{${labels}} 0.001\n`), scraped);
  assert.match(scraped, /vk_cocoon_node_storage_total_bytes [1-9]/);
  metrics.clear();
  await node.kill();
  await node.start();
  await eventually(() => assert.ok(node.host.calls.filter((call) => call === "stats").length > 5));
  assert.equal(await idleSince(), since, "a restart of the kubelet is no use of the machine");
  const used = cluster.kubectl(["exec", "-n", world.namespace.name, "demo", "--", "sleep", "1"]);
  await eventually(async () => assert.equal(await idleSince(), undefined));
  node.vm(vmName).programs.forEach((program) => program.end({ code: 0 }));
  await used;
  await eventually(async () => assert.ok(await idleSince()));
  await world.annotate("demo", "vm.cocoonstack.io/hibernate=true");
  await reaches(world, "demo", "hibernated");
  assert.equal(await idleSince(), undefined, "who sleeps is not idle");
});

test("machines that sleep are listed in a ConfigMap for controllers of the older API", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, { ...runMachine(vmName), "cocoon.cis/vm-name": vmName }));
  await reaches(world, "demo", "ready");
  const listed = async () => {
    const name = ["cocoon-vm-snapshots", "-n", world.namespace.name, "--ignore-not-found"];
    const found = await cluster.kubectl(["get", "configmap", ...name, "-o", "json"]);
    const data = found.stdout === "" ? {} : (JSON.parse(found.stdout) as { data?: object }).data;
    return Object.keys(data ?? {});
  };
  assert.deepEqual(await listed(), []);
  await world.annotate("demo", "vm.cocoonstack.io/hibernate=true");
  await reaches(world, "demo", "hibernated");
  assert.deepEqual(await listed(), [vmName]);
  await world.annotate("demo", "vm.cocoonstack.io/hibernate-");
  await reaches(world, "demo", "ready");
  await eventually(async () => assert.deepEqual(await listed(), []));
});

test("what cannot run here is refused with the reason", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-mac`;
  await world.apply(
    machinePod("mac", node.name, { ...runMachine(vmName), "cocoonset.cocoonstack.io/os": "macos" }),
  );
  await reaches(world, "mac", "failed");
  const message = await annotationOf(world, "mac", "vm.cocoonstack.io/lifecycle-state-message");
  assert.match(message ?? "", /this node has no program for it/);
  assert.equal(node.host.vms.size, 0);
});
