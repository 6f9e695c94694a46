/**
 * agent-sandbox served by the operator: claims of a warm pool against claims that boot a machine for themselves, in the same run
 * and in alternating order, with real guests; then more claims at once than the pool has members, with machines in memory.
 *
 *   --claims N   claims each way, one after another (10)
 *   --burst N    claims at once (200)
 *   --pool N     members of the pool then (20)
 *
 * A claim's time is what a client sees: from its POST until a watch shows it Ready. The operator, the kubelet and this program
 * are one process; the control plane and the guests share its cores.
 */
import { parseArgs } from "node:util";
import { eventually, ownControlPlane } from "@cocoon/testkit";
import {
  demoTemplate,
  extension,
  installAgentSandbox,
  openSandboxWorld,
  podTemplate,
  type SandboxWorld,
} from "../test/integration/operator/sandbox-world.ts";
import { openRealNode } from "../test/integration/vk/real-guest.ts";
import { openClaims, type Served } from "./agent-sandbox/claims.ts";
import { computePercentiles, printReport } from "./report.ts";
import { interruptSignal } from "./support/interrupt.ts";

const { values } = parseArgs({
  options: {
    claims: { type: "string", default: "10" },
    burst: { type: "string", default: "200" },
    pool: { type: "string", default: "20" },
  },
});
const signal = interruptSignal();
const readyMs = 300_000;

async function makePool(world: SandboxWorld, name: string, { replicas = 0, template = {} }): Promise<void> {
  await world.apply(extension("SandboxTemplate", name, { podTemplate: template }));
  await world.apply(extension("SandboxWarmPool", name, { replicas, sandboxTemplateRef: { name } }));
}

async function poolIsReady(world: SandboxWorld, name: string, replicas: number): Promise<void> {
  await eventually(
    async () => {
      const { readyReplicas } = (await world.get("swp", name))?.status ?? {};
      if (readyReplicas !== replicas) throw new Error(`${readyReplicas} of ${replicas} are ready`);
    },
    { timeoutMs: readyMs },
  );
}

await using cluster = await ownControlPlane({ controllers: true });
await installAgentSandbox(cluster);

async function measureClaims(count: number) {
  await using given = await openRealNode(cluster);
  await using world = await openSandboxWorld(cluster, { nodes: 1, given });
  await using claims = await openClaims(world, { signal });
  const template = demoTemplate(world);
  await makePool(world, "warm", { replicas: 2, template });
  await makePool(world, "cold", { replicas: 0, template });
  const taken: Record<"warm" | "cold", Served[]> = { warm: [], cold: [] };
  for (let index = 0; index < count; index += 1)
    for (const pool of index % 2 === 0 ? (["warm", "cold"] as const) : (["cold", "warm"] as const)) {
      await poolIsReady(world, "warm", 2);
      const name = `${pool}-${index}`;
      taken[pool].push(await claims.take(name, pool));
      await claims.giveBack(name);
      signal.throwIfAborted();
    }
  const percentiles = (pool: "warm" | "cold") => computePercentiles(taken[pool].map(({ ms }) => ms));
  return { count, warmMs: percentiles("warm"), coldMs: percentiles("cold") };
}

async function measureBurst(count: number, members: number) {
  await using world = await openSandboxWorld(cluster, { nodes: 2 });
  await using claims = await openClaims(world, { signal });
  await makePool(world, "pool", { replicas: members, template: podTemplate(world) });
  await poolIsReady(world, "pool", members);
  const began = performance.now();
  const names = Array.from({ length: count }, (_, index) => `c${index}`);
  const served = await Promise.all(names.map((name) => claims.take(name, "pool")));
  const tookS = (performance.now() - began) / 1000;
  await poolIsReady(world, "pool", members);
  const machines = world.nodes.flatMap((node) => [...node.host.vms.values()].map(({ vm }) => vm.name));
  const warm = served.filter(({ sandbox }, index) => sandbox !== names[index]).length;
  return {
    claims: count,
    pool: members,
    tookS,
    ms: computePercentiles(served.map(({ ms }) => ms)),
    served: served.length,
    fromPool: warm,
    sandboxes: new Set(served.map(({ sandbox }) => sandbox)).size,
    machines: machines.length,
    doubled:
      machines.length -
      new Set(machines).size +
      (served.length - new Set(served.map(({ sandbox }) => sandbox)).size),
    leftOver: machines.length - count - members,
  };
}

const burst = await measureBurst(Number(values.burst), Number(values.pool));
console.log(`# ${JSON.stringify({ burst })}`);
const claims = await measureClaims(Number(values.claims));
console.log(`# ${JSON.stringify({ claims })}`);

printReport({
  bench: "agent-sandbox",
  figures: { claims, burst },
  targets: [
    { name: "claim to Ready out of the pool, p50 in ms", value: claims.warmMs.p50, want: "<= 1000" },
    {
      name: "claim to Ready out of the pool, p50, share of a boot",
      value: claims.warmMs.p50 / claims.coldMs.p50,
      want: "<= 0.1",
    },
    { name: "claims of the burst that were served", value: burst.served / burst.claims, want: ">= 1" },
    { name: "Sandboxes or machines doubled", value: burst.doubled, want: "<= 0" },
    { name: "machines left over", value: burst.leftOver, want: "<= 0" },
  ],
});
