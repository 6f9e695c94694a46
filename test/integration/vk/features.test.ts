/** What machines do by themselves and on request: liveness, idleness, lists for older controllers, refusals. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { createRegistry } from "@cocoon/core";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { machinePod, openWorld, runMachine, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const timeoutMs = 60_000;

async function readAnnotation(world: World, pod: string, key: string): Promise<string | undefined> {
  return (await world.pod(pod))?.metadata.annotations[key];
}

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(
    async () => assert.equal(await readAnnotation(world, pod, "vm.cocoonstack.io/lifecycle-state"), state),
    { timeoutMs },
  );
}

function podWith(
  world: World,
  { name, node }: { readonly name: string; readonly node: string },
  container: object,
): Record<string, unknown> {
  const pod = machinePod(name, node, runMachine(`vk-${world.namespace.name}-${name}`)) as { spec: object };
  return { ...pod, spec: { ...pod.spec, containers: [{ name: "agent", image: "demo", ...container }] } };
}

test("a machine whose livenessProbe fails is reset in place, and that is counted", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode({ changes: { livenessSecondMs: 20 } });
  node.host.services.set(8080, (stream) => stream.end());
  const livenessProbe = { tcpSocket: { port: 8080 }, periodSeconds: 1, failureThreshold: 2 };
  const pod = "live";
  const vmName = `vk-${world.namespace.name}-${pod}`;
  await world.apply(podWith(world, { name: pod, node: node.name }, { livenessProbe }));
  await reaches(world, pod, "ready");
  const { id, epoch } = node.vm(vmName).vm;
  node.host.services.delete(8080);
  await eventually(() => assert.notEqual(node.vm(vmName).vm.epoch, epoch), { timeoutMs });
  node.host.services.set(8080, (stream) => stream.end());
  assert.equal(node.vm(vmName).vm.id, id, "the same VM");
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

test("since when a machine is idle stands on its pod, until it is used", async () => {
  await using world = await openWorld(cluster);
  const metrics = createRegistry("test");
  const node = await world.newNode({ changes: { metrics, idle: { sampleMs: 100, cpuPercent: 2 } } });
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, runMachine(vmName)));
  await reaches(world, "demo", "ready");
  const idleSince = () => readAnnotation(world, "demo", "vm.cocoonstack.io/idle-since");
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

test("hibernated machines of the older API are listed with full references until their wake starts", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-demo`;
  await world.apply(machinePod("demo", node.name, { ...runMachine(vmName), "cocoon.cis/vm-name": vmName }));
  await reaches(world, "demo", "ready");
  const annotations: Readonly<Record<string, string>> = (await world.pod("demo"))?.metadata.annotations ?? {};
  assert.equal(annotations["cocoon.cis/vm-id"], annotations["vm.cocoonstack.io/id"]);
  assert.equal(annotations["cocoon.cis/ip"], annotations["vm.cocoonstack.io/ip"]);
  assert.ok(annotations["cocoon.cis/vm-id"] && annotations["cocoon.cis/ip"]);
  assert.deepEqual(await readList(world), {});
  await world.annotate("demo", "vm.cocoonstack.io/hibernate=true");
  await reaches(world, "demo", "hibernated");
  const host = world.server.url.replace(/^https?:\/\//, "");
  assert.deepEqual(await readList(world), { [vmName]: `${host}/${vmName}:hibernate` });
  assert.equal((await world.pod("demo"))?.metadata.annotations["cocoon.cis/vm-id"], undefined);
  const release = node.host.hold("clone");
  await world.annotate("demo", "vm.cocoonstack.io/hibernate-");
  await eventually(async () => assert.deepEqual(await readList(world), {}));
  assert.equal(node.host.vms.size, 0, "the entry goes when the wake starts");
  release();
  await reaches(world, "demo", "ready");
});

test("a Deployment's pod hibernated by the older key is listed, and unlisted when the key is gone", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-web`;
  await world.apply(machinePod("web", node.name, runMachine(vmName)));
  await reaches(world, "web", "ready");
  await world.annotate("web", "cocoon.cis/hibernate=true");
  await reaches(world, "web", "hibernated");
  assert.deepEqual(Object.keys(await readList(world)), [vmName]);
  await world.annotate("web", "cocoon.cis/hibernate-");
  await reaches(world, "web", "ready");
  assert.deepEqual(await readList(world), {});
});

async function readList(world: World): Promise<object> {
  const name = ["cocoon-vm-snapshots", "-n", world.namespace.name, "--ignore-not-found"];
  const found = await cluster.kubectl(["get", "configmap", ...name, "-o", "json"]);
  return (found.stdout === "" ? undefined : (JSON.parse(found.stdout) as { data?: object }).data) ?? {};
}

test("what cannot run here is refused with the reason", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-mac`;
  await world.apply(
    machinePod("mac", node.name, { ...runMachine(vmName), "cocoonset.cocoonstack.io/os": "macos" }),
  );
  await reaches(world, "mac", "failed");
  const message = await readAnnotation(world, "mac", "vm.cocoonstack.io/lifecycle-state-message");
  assert.match(message ?? "", /this node has no cocoon-macos: install it where VK_COCOON_MACOS_BIN says/);
  assert.equal(node.host.vms.size, 0);
});
