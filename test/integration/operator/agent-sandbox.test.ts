/** agent-sandbox without upstream's controller: the operator serves its kinds, and Suspended keeps memory. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { sandboxHash, sandboxLabel } from "@cocoon/contract/agent-sandbox";
import { eventually, sharedControlPlane } from "@cocoon/testkit";
import { mark, readMark } from "../vk/test-vk.ts";
import {
  condition,
  extension,
  findHost,
  hasReason,
  installAgentSandbox,
  openSandboxWorld,
  podTemplate,
  sandboxObject,
  timeoutMs,
  type SandboxView,
  type SandboxWorld,
} from "./sandbox-world.ts";

const cluster = await sharedControlPlane();
await installAgentSandbox(cluster);

async function setMode(
  world: SandboxWorld,
  name: string,
  operatingMode: "Running" | "Suspended",
): Promise<void> {
  await world.kubectl(
    "patch",
    "sandbox",
    name,
    "--type=merge",
    "-p",
    JSON.stringify({ spec: { operatingMode } }),
  );
}

async function applyPool(
  world: SandboxWorld,
  replicas: number,
  {
    annotations = {},
    ...template
  }: { readonly annotations?: object; readonly [field: string]: unknown } = {},
): Promise<void> {
  await world.apply(extension("SandboxTemplate", "tpl", { podTemplate: podTemplate(world), ...template }));
  const pool = extension("SandboxWarmPool", "pool", { replicas, sandboxTemplateRef: { name: "tpl" } });
  await world.apply({ ...pool, metadata: { name: "pool", annotations } });
}

async function poolIsReady(world: SandboxWorld, replicas: number): Promise<void> {
  await eventually(
    async () => assert.equal((await world.get("swp", "pool"))?.status?.readyReplicas, replicas),
    { timeoutMs },
  );
}

function claim(name: string, spec: object = {}): object {
  return extension("SandboxClaim", name, { warmPoolRef: { name: "pool" }, ...spec });
}

test("a Sandbox is suspended and resumed on another node with its memory", async () => {
  await using world = await openSandboxWorld(cluster);
  await world.apply(sandboxObject(world, "s1", { service: true }));
  const ready = await hasReason(world, ["sandbox", "s1"], "DependenciesReady");
  assert.equal(condition(ready, "Ready")?.message, "Pod is Ready; Service Exists");
  assert.equal(condition(ready, "Suspended")?.reason, "NotSuspended");
  assert.equal(ready.status?.serviceFQDN, `s1.${world.namespace.name}.svc.cluster.local`);
  const service = await world.get<{ spec: { clusterIP: string; selector: object } }>("service", "s1");
  assert.deepEqual(service?.spec.selector, { [sandboxLabel.nameHash]: sandboxHash("s1") });
  assert.equal(service.spec.clusterIP, "None");
  const vmName = await world.vmName("s1");
  const first = findHost(world, vmName);
  const marked = mark(first, vmName);
  await setMode(world, "s1", "Suspended");
  const suspended = await eventually(
    async () => {
      const found = await world.get("sandbox", "s1");
      assert.equal(condition(found, "Suspended")?.reason, "PodTerminated");
      return found;
    },
    { timeoutMs },
  );
  assert.equal(condition(suspended, "Ready")?.message, "Sandbox is suspended");
  assert.equal(suspended?.status?.podIPs, undefined);
  assert.equal(first.host.vms.size, 0);
  await cluster.kubectl(["cordon", first.name]);
  await setMode(world, "s1", "Running");
  await hasReason(world, ["sandbox", "s1"], "DependenciesReady");
  const second = findHost(world, vmName);
  assert.notEqual(second.name, first.name);
  assert.equal(readMark(second, vmName), marked);
});

test("a volume is refused by a condition that names it, and is immutable", async () => {
  await using world = await openSandboxWorld(cluster, { nodes: 1 });
  const volumeClaimTemplates = [{ metadata: { name: "data" }, spec: { accessModes: ["ReadWriteOnce"] } }];
  await world.apply(sandboxObject(world, "s1", { volumeClaimTemplates }));
  const refused = await hasReason(world, ["sandbox", "s1"], "InvalidConfiguration");
  assert.match(condition(refused, "Ready")?.message ?? "", /volumeClaimTemplates: machines cannot mount/);
  assert.equal(await world.pod("s1"), undefined);
  const body = JSON.stringify({ spec: { volumeClaimTemplates: [] } });
  const args = ["patch", "sandbox", "s1", "--type=merge", "-p", body, "-n", world.namespace.name];
  assert.match((await cluster.kubectl(args)).stderr, /volumeClaimTemplates is immutable/);
});

test("an expiry with Retain is a pause; with Delete it is the end", async () => {
  await using world = await openSandboxWorld(cluster, { nodes: 1 });
  const [node] = world.nodes;
  assert.ok(node);
  await world.apply(sandboxObject(world, "s1"));
  await hasReason(world, ["sandbox", "s1"], "DependenciesReady");
  const vmName = await world.vmName("s1");
  const marked = mark(node, vmName);
  const expire = async (more: object) => {
    const spec = { shutdownTime: new Date(Date.now() - 1_000).toISOString(), ...more };
    await world.kubectl("patch", "sandbox", "s1", "--type=merge", "-p", JSON.stringify({ spec }));
  };
  await expire({});
  await hasReason(world, ["sandbox", "s1"], "SandboxExpired");
  await eventually(async () => assert.equal(await world.pod("s1"), undefined), { timeoutMs });
  assert.equal(node.host.vms.size, 0);
  await world.kubectl("patch", "sandbox", "s1", "--type=merge", "-p", '{"spec":{"shutdownTime":null}}');
  await hasReason(world, ["sandbox", "s1"], "DependenciesReady");
  assert.equal(readMark(node, vmName), marked);
  await expire({ shutdownPolicy: "Delete" });
  await eventually(async () => assert.equal(await world.get("sandbox", "s1"), undefined), { timeoutMs });
  // The garbage collector deletes the pod after its owner.
  await eventually(
    async () => {
      assert.equal(node.host.vms.size, 0);
      assert.equal(await world.tagged(vmName, "hibernate"), undefined);
    },
    { timeoutMs },
  );
});

test("a claim takes a booted machine out of the pool, with its environment and metadata, and the pool is filled again", async () => {
  await using world = await openSandboxWorld(cluster, { nodes: 1 });
  const [node] = world.nodes;
  assert.ok(node);
  await applyPool(world, 2, { envVarsInjectionPolicy: "Allowed" });
  await poolIsReady(world, 2);
  const members = new Map((await pods(world)).map(({ metadata }) => [metadata.name, metadata.uid] as const));
  await world.apply(
    claim("c1", {
      env: [{ name: "TOKEN", value: "it's" }],
      additionalPodMetadata: { labels: { "sandbox.users.io/team": "blue" } },
    }),
  );
  const ready = await hasReason(world, ["sandboxclaim", "c1"], "DependenciesReady");
  const name = ready.status?.sandbox?.name ?? "";
  assert.ok(members.has(name), "taken out of the pool");
  const [pod] = (await pods(world)).filter(({ metadata }) => metadata.name === name);
  assert.ok(pod);
  assert.equal(pod.metadata.uid, members.get(name), "the same pod");
  assert.equal(pod.metadata.labels?.["sandbox.users.io/team"], "blue");
  assert.equal(pod.metadata.labels?.[sandboxLabel.warmPool], undefined);
  const vmName = await world.vmName(name);
  assert.equal(node.vm(vmName).guest.read("/etc/profile.d/cocoon-env.sh"), "export TOKEN='it'\\''s'\n");
  const sandbox = await world.get("sandbox", name);
  assert.deepEqual(
    [sandbox?.metadata.ownerReferences?.[0]?.kind, sandbox?.metadata.labels?.[sandboxLabel.launchType]],
    ["SandboxClaim", "warm"],
  );
  await poolIsReady(world, 2);
  await world.kubectl("delete", "sandboxclaim", "c1");
  await eventually(async () => assert.equal(await world.get("sandbox", name), undefined), { timeoutMs });
  await poolIsReady(world, 2);
  await eventually(() => assert.equal(node.host.vms.size, 2, "none is left over"), { timeoutMs });
});

async function pods(world: SandboxWorld): Promise<readonly SandboxView[]> {
  return (JSON.parse(await world.kubectl("get", "pods", "-o", "json")) as { items: SandboxView[] }).items;
}

test("members of a pool that asks for it stand still, and run when a claim takes them", async () => {
  await using world = await openSandboxWorld(cluster, { nodes: 1 });
  const [node] = world.nodes;
  assert.ok(node);
  const annotations = { "vm.cocoonstack.io/pause": "true" };
  await applyPool(world, 2, { envVarsInjectionPolicy: "Allowed", annotations });
  await poolIsReady(world, 2);
  const states = () => [...node.host.vms.values()].map(({ vm }) => vm.state).toSorted();
  await eventually(() => assert.deepEqual(states(), ["paused", "paused"]), { timeoutMs });
  await world.apply(claim("c1", { env: [{ name: "A", value: "b" }] }));
  const ready = await hasReason(world, ["sandboxclaim", "c1"], "DependenciesReady");
  const vmName = await world.vmName(ready.status?.sandbox?.name ?? "");
  assert.equal(node.vm(vmName).vm.state, "running");
  assert.equal(node.vm(vmName).guest.read("/etc/profile.d/cocoon-env.sh"), "export A='b'\n");
  await poolIsReady(world, 2);
  await eventually(() => assert.deepEqual(states(), ["paused", "paused", "running"]), { timeoutMs });
  await node.kill();
  await node.start();
  await poolIsReady(world, 2);
  await eventually(() => assert.deepEqual(states(), ["paused", "paused", "running"]), { timeoutMs });
  await world.kubectl("scale", "swp", "pool", "--replicas=0");
  await eventually(() => assert.deepEqual(states(), ["running"], "those of a smaller pool end"), {
    timeoutMs,
  });
});

test("claims without a pool, a template, or against its rules say so", async () => {
  await using world = await openSandboxWorld(cluster, { nodes: 1 });
  await world.apply(claim("c1"));
  await hasReason(world, ["sandboxclaim", "c1"], "WarmPoolNotFound");
  await world.apply(
    extension("SandboxWarmPool", "pool", { replicas: 0, sandboxTemplateRef: { name: "tpl" } }),
  );
  await hasReason(world, ["sandboxclaim", "c1"], "TemplateNotFound");
  await applyPool(world, 0);
  await world.apply(claim("c2", { env: [{ name: "A", value: "b" }] }));
  await hasReason(world, ["sandboxclaim", "c2"], "EnvVarsInjectionRejected");
  await world.apply(claim("c3", { additionalPodMetadata: { labels: { plain: "x" } } }));
  await hasReason(world, ["sandboxclaim", "c3"], "InvalidMetadata");
  await world.apply(claim("c4"));
  const cold = await hasReason(world, ["sandboxclaim", "c4"], "DependenciesReady");
  assert.equal(cold.status?.sandbox?.name, "c4", "an empty pool: booted for the claim alone");
  const policy = await world.get<{ spec: { ingress: unknown[] } }>("networkpolicy", "tpl-network-policy");
  assert.equal(policy?.spec.ingress.length, 1);
});

test("a claim that expires with Retain stays, without its Sandbox", async () => {
  await using world = await openSandboxWorld(cluster, { nodes: 1 });
  await applyPool(world, 0);
  await world.apply(claim("c1"));
  await hasReason(world, ["sandboxclaim", "c1"], "DependenciesReady");
  const spec = { lifecycle: { shutdownTime: new Date(Date.now() - 1_000).toISOString() } };
  await world.kubectl("patch", "sandboxclaim", "c1", "--type=merge", "-p", JSON.stringify({ spec }));
  await hasReason(world, ["sandboxclaim", "c1"], "ClaimExpired");
  await eventually(async () => assert.equal(await world.get("sandbox", "c1"), undefined), { timeoutMs });
  await eventually(() => assert.equal(world.nodes[0]?.host.vms.size, 0), { timeoutMs });
});
