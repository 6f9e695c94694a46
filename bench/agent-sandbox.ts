/**
 * agent-sandbox, served by the operator. Claims that take a machine out of a warm pool against claims that have one booted, with
 * real guests, in alternating order in the same run; and a burst of claims on a small pool, with machines in memory.
 *
 *   --claims N   claims measured each way (20)
 *   --burst N    claims at once (200)
 *   --pool N     members of the pool that the burst meets (20)
 */
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { ownControlPlane } from "@cocoon/testkit";
import { countMachines, measureBurst, measureClaims, openScene } from "./agent-sandbox/claims.ts";
import { printReport } from "./report.ts";

const { values } = parseArgs({
  options: {
    claims: { type: "string", default: "20" },
    burst: { type: "string", default: "200" },
    pool: { type: "string", default: "20" },
  },
});

await using cluster = await ownControlPlane({ controllers: true });
const began = performance.now();
const claims = await runClaims();
console.log(JSON.stringify({ claims }));
const { burst, left } = await runBurst();
console.log(JSON.stringify({ burst, left }));

async function runClaims() {
  await using scene = await openScene(cluster, { real: true });
  return await measureClaims(scene, Number(values.claims));
}

async function runBurst() {
  await using scene = await openScene(cluster, { real: false });
  const measured = await measureBurst(scene, { claims: Number(values.burst), pool: Number(values.pool) });
  return { burst: measured, left: await countMachines(scene) };
}

printReport({
  bench: "agent-sandbox",
  figures: { claims, burst, tookS: (performance.now() - began) / 1000 },
  targets: [
    { name: "claim to Ready from a warm pool, p50, ms", value: claims.warm.p50, want: "<= 500" },
    { name: "claim to Ready from a warm pool, p99, ms", value: claims.warm.p99, want: "<= 1000" },
    { name: "warm p50, share of cold", value: claims.warm.p50 / claims.cold.p50, want: "<= 0.5" },
    { name: "claims of the burst that were served, share", value: burst.served / burst.claims, want: ">= 1" },
    { name: "Sandboxes that two claims got", value: burst.doubled, want: "<= 0" },
    { name: "machines left after deletion", value: left, want: "<= 0" },
  ],
});
