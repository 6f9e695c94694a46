/** Where machines come from: a snapshot in the registry, by mode or by what the registry holds, or a directory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, sharedControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { cloneMachine, deletePod, snapshotDirectory } from "./sources.ts";
import { machinePod, mark, openWorld, runMachine, readMark, type World } from "./test-vk.ts";

const cluster = await sharedControlPlane();
const timeoutMs = 60_000;

async function reaches(world: World, pod: string, state: string): Promise<void> {
  await eventually(
    async () => {
      const { annotations = {} } = (await world.pod(pod))?.metadata ?? {};
      const message = annotations["vm.cocoonstack.io/lifecycle-state-message"] ?? "";
      assert.equal(annotations["vm.cocoonstack.io/lifecycle-state"], state, message);
    },
    { timeoutMs },
  );
}

test("machines are cloned from a snapshot in the registry, and from a directory below an allowed root", async () => {
  await using world = await openWorld(cluster);
  await using root = await temporaryDirectory();
  const node = await world.newNode({ changes: { cloneRoots: [root.path] } });
  const base = `vk-${world.namespace.name}-base`;
  await world.apply(machinePod("base", node.name, runMachine(base)));
  await reaches(world, "base", "ready");
  const marked = mark(node, base);
  await deletePod(world, "base");
  assert.ok(await world.tagged(base, "latest"));

  const make = async (name: string, from: Parameters<typeof cloneMachine>[1]) => {
    const vmName = `vk-${world.namespace.name}-${name}`;
    await world.apply(machinePod(name, node.name, cloneMachine(vmName, from)));
    await reaches(world, name, "ready");
    return readMark(node, vmName);
  };
  assert.equal(await make("clone", { image: base, mode: "clone" }), marked);
  assert.equal(await make("bare", { image: base }), marked, "the registry says that it is a snapshot");
  assert.equal(
    await make("fresh", { image: "https://images.test/demo.img" }),
    undefined,
    "a URL is an image",
  );
  const directory = await snapshotDirectory(world, { vmName: base, below: root.path });
  assert.equal(await make("dir", { directory }), marked);

  const refused = `vk-${world.namespace.name}-refused`;
  await world.apply(machinePod("refused", node.name, cloneMachine(refused, { directory: "/etc" })));
  await reaches(world, "refused", "failed");
  const annotations = (await world.pod("refused"))?.metadata.annotations;
  assert.match(annotations?.["vm.cocoonstack.io/lifecycle-state-message"] ?? "", /is not below any of/);
});

test("mode clone, which a set without a mode has, boots what is certainly no snapshot", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const make = async (name: string, image: string, state: string) => {
    const vmName = `vk-${world.namespace.name}-${name}`;
    await world.apply(machinePod(name, node.name, cloneMachine(vmName, { image, mode: "clone" })));
    await reaches(world, name, state);
    return vmName;
  };
  const builtIn = await make("builtin", "cocoon-demo", "ready");
  assert.equal(node.vm(builtIn).vm.origin.kind, "image");
  const events = ["get", "events", "-n", world.namespace.name, "--field-selector=reason=ModeResolved"];
  await eventually(
    async () => assert.match((await cluster.kubectl(events)).stdout, /cocoon-demo is an image: it boots/),
    { timeoutMs },
  );

  await make("missing", "nosuch:1", "failed");
  const annotations = (await world.pod("missing"))?.metadata.annotations;
  assert.match(
    annotations?.["vm.cocoonstack.io/lifecycle-state-message"] ?? "",
    /image "nosuch:1" \(spec\.agent\.image .*: the registry has no snapshot or image of that name.*`cocoonctl images`/,
  );
});

test("a clone gets the disk that its pod asks for; CPUs that the engine cannot change are a condition and an event", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const base = `vk-${world.namespace.name}-base`;
  await world.apply(machinePod("base", node.name, runMachine(base)));
  await reaches(world, "base", "ready");
  const { cpus, storageBytes } = node.vm(base).vm.config;
  await deletePod(world, "base");
  const name = `vk-${world.namespace.name}-big`;
  const storage = { "cocoonset.cocoonstack.io/storage": String(storageBytes * 2) };
  const machine = { ...cloneMachine(name, { image: base, mode: "clone" }), ...storage };
  const pod = machinePod("big", node.name, machine) as { spec: { containers: object[] } };
  const resources = { requests: { cpu: String(cpus + 2) } };
  const containers = pod.spec.containers.map((container) => ({ ...container, resources }));
  await world.apply({ ...pod, spec: { ...pod.spec, containers } });
  await reaches(world, "big", "ready");
  const { config } = node.vm(name).vm;
  assert.deepEqual([config.cpus, config.storageBytes], [cpus, storageBytes * 2]);
  const conditions = (await world.pod("big"))?.status.conditions ?? [];
  const condition = conditions.find(({ type }) => type === "cocoonstack.io/SizeApplied");
  assert.deepEqual([condition?.status, condition?.reason], ["False", "SnapshotSizeKept"]);
  await eventually(async () => {
    const events = await cluster.kubectl(["get", "events", "-n", world.namespace.name, "-o", "json"]);
    assert.match(events.stdout, /"reason": "SnapshotSizeKept"/);
  });
});

test("a Windows machine says how to reach it instead", async () => {
  await using world = await openWorld(cluster);
  const node = await world.newNode();
  const vmName = `vk-${world.namespace.name}-win`;
  await world.apply(
    machinePod("win", node.name, { ...runMachine(vmName), "cocoonset.cocoonstack.io/os": "windows" }),
  );
  await reaches(world, "win", "ready");
  const ip = node.host.findAddress(node.vm(vmName).vm);
  const inNamespace = ["-n", world.namespace.name];
  const ran = await cluster.kubectl(["exec", "win", ...inNamespace, "--", "dir"]);
  assert.equal(ran.code, 1);
  assert.match(ran.stderr, new RegExp(`not supported on Windows guests. Connect via RDP to ${ip}`));
  const logs = await cluster.kubectl(["logs", "win", ...inNamespace]);
  assert.equal(
    logs.stdout,
    `vk-cocoon: kubectl logs is not supported on Windows guests; connect via RDP to ${ip}\n`,
  );
});
