/** Claims on warm pools: how soon they are ready, and what a burst of them gets. */
import { performance } from "node:perf_hooks";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import { eventually, type TestCluster } from "@cocoon/testkit";
import {
  condition,
  extension,
  installAgentSandbox,
  openSandboxWorld,
  podTemplate,
  type SandboxView,
  type SandboxWorld,
} from "../../test/integration/operator/sandbox-world.ts";
import { openRealNode } from "../../test/integration/vk/real-guest.ts";
import { imageDirectory } from "../../test/integration/vm/qemu-harness.ts";
import { computePercentiles } from "../report.ts";

const timeoutMs = 300_000;
const apiPath = "/apis/extensions.agents.x-k8s.io/v1beta1/namespaces";

export interface Scene extends AsyncDisposable {
  readonly world: SandboxWorld;
  readonly client: KubeConnection;
}

/** `real`: guests under QEMU; else machines in memory. */
export async function openScene(cluster: TestCluster, { real }: { readonly real: boolean }): Promise<Scene> {
  const stack = new AsyncDisposableStack();
  const end = new AbortController();
  stack.defer(() => end.abort());
  await installAgentSandbox(cluster);
  if (real)
    await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal: end.signal });
  const given = real ? stack.use(await openRealNode(cluster)) : undefined;
  const world = stack.use(await openSandboxWorld(cluster, { nodes: 1, ...(given ? { given } : {}) }));
  const client = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal: end.signal }));
  await applyPool({ world, client }, "cold", { replicas: 0, real });
  return { world, client, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

type Place = Pick<Scene, "world" | "client">;

export async function applyPool(
  { world }: Place,
  name: string,
  { replicas, real }: { readonly replicas: number; readonly real: boolean },
): Promise<void> {
  const resources = { requests: { cpu: "100m", memory: "128Mi" } };
  const containers = [{ name: "agent", image: real ? demoImageName : "demo", resources }];
  const annotations = real
    ? { "cocoonset.cocoonstack.io/storage": "256Mi" }
    : {
        "cocoonset.cocoonstack.io/mode": "run",
        "cocoonset.cocoonstack.io/image": "https://images.test/demo.img",
      };
  const template = { ...podTemplate(world, { containers }), metadata: { annotations } };
  await world.apply(extension("SandboxTemplate", name, { podTemplate: template }));
  await world.apply(extension("SandboxWarmPool", name, { replicas, sandboxTemplateRef: { name } }));
  await awaitPool(world, name, replicas);
}

async function awaitPool(world: SandboxWorld, name: string, replicas: number): Promise<void> {
  await eventually(
    async () => {
      if (((await world.get("swp", name))?.status?.readyReplicas ?? 0) !== replicas)
        throw new Error("not filled");
    },
    { timeoutMs, intervalMs: 200 },
  );
}

async function claim({ world, client }: Place, name: string, pool: string): Promise<void> {
  const body = extension("SandboxClaim", name, { warmPoolRef: { name: pool } });
  const path = `${apiPath}/${world.namespace.name}/sandboxclaims`;
  await client.raw({ method: "POST", path, body, signal: AbortSignal.timeout(timeoutMs) });
}

async function readClaim({ world, client }: Place, name: string): Promise<SandboxView> {
  const path = `${apiPath}/${world.namespace.name}/sandboxclaims/${name}`;
  return (await client.raw({ method: "GET", path, signal: AbortSignal.timeout(timeoutMs) })) as SandboxView;
}

async function awaitReady(place: Place, name: string): Promise<SandboxView> {
  return eventually(
    async () => {
      const found = await readClaim(place, name);
      if (condition(found, "Ready")?.status !== "True") throw new Error(condition(found, "Ready")?.reason);
      return found;
    },
    { timeoutMs, intervalMs: 5 },
  );
}

/** From the request for the claim to its condition Ready, in alternating order. */
export async function measureClaims(scene: Scene, count: number) {
  const times = { warm: [] as number[], cold: [] as number[] };
  await applyPool(scene, "warm", { replicas: 1, real: true });
  for (let index = 0; index < count; index += 1)
    for (const way of index % 2 === 0 ? (["warm", "cold"] as const) : (["cold", "warm"] as const)) {
      await awaitPool(scene.world, "warm", 1);
      const began = performance.now();
      await claim(scene, `${way}-${index}`, way);
      await awaitReady(scene, `${way}-${index}`);
      times[way].push(performance.now() - began);
      await scene.world.kubectl("delete", "sandboxclaim", `${way}-${index}`);
    }
  return { warm: computePercentiles(times.warm), cold: computePercentiles(times.cold), count };
}

export async function measureBurst(
  scene: Scene,
  { claims, pool }: { readonly claims: number; readonly pool: number },
) {
  await applyPool(scene, "burst", { replicas: pool, real: false });
  const names = Array.from({ length: claims }, (_each, index) => `burst-${index}`);
  const began = performance.now();
  const served = await Promise.all(
    names.map(async (name) => {
      await claim(scene, name, "burst");
      const ready = await awaitReady(scene, name);
      return { sandbox: ready.status?.sandbox?.name ?? "", ms: performance.now() - began };
    }),
  );
  const doubled = served.length - new Set(served.map(({ sandbox }) => sandbox)).size;
  const warm = served.filter(
    ({ sandbox }) => !sandbox.startsWith("burst-") || !names.includes(sandbox),
  ).length;
  return { claims, served: served.length, doubled, warm, ...computePercentiles(served.map(({ ms }) => ms)) };
}

/** After everything was deleted. */
export async function countMachines({ world }: Scene): Promise<number> {
  await world.kubectl("delete", "sandboxclaims,sandboxwarmpools", "--all", "--wait=false");
  await eventually(
    async () => {
      if ((await world.kubectl("get", "sandboxes", "-o", "name")) !== "")
        throw new Error("Sandboxes are left");
    },
    { timeoutMs, intervalMs: 500 },
  );
  return world.nodes.reduce((sum, { host }) => sum + host.vms.size, 0);
}
