/**
 * The operator as a process of its own, on a control plane of its own, with a fake kubelet that answers at once.
 *
 *   npm run bench -- operator [--sets 300,1000,5000] [--churn 200] [--quiet-seconds 30]
 *
 * For each number of `--sets`: that many sets of four pods (main, two sub-agents, one toolbox) are created, 16 at a
 * time, until all are Running. Churn: that many sets are created alone, then as many while the first ones are deleted,
 * with a registry that speaks TLS; 0 leaves it out. CPU, memory and requests are the process's own metrics. No scheduler
 * runs (it limits itself to 50 requests a second): the fake kubelet binds pods too. The API server, etcd, the registry, the
 * fake kubelet and this program share the same cores. The reference of the Go operator (300 sets: about 2 s, 11 writes,
 * 72 MB, 8 CPU seconds) was measured on two cores elsewhere.
 */
import { parseArgs } from "node:util";
import { sleep } from "@cocoon/core";
import { ownControlPlane } from "@cocoon/testkit";
import { installCrds } from "../test/integration/contract/install-crds.ts";
import { measureChurn } from "./operator/churn.ts";
import { createSets, reachAll, startPlatform, type Platform } from "./operator/platform.ts";
import { printReport, type Target } from "./report.ts";
import { interruptSignal } from "./support/interrupt.ts";
import { released } from "./support/released.ts";

const { values } = parseArgs({
  options: {
    sets: { type: "string", default: "300,1000,5000" },
    churn: { type: "string", default: "200" },
    "quiet-seconds": { type: "string", default: "30" },
  },
});
const counts = values.sets
  .split(",")
  .map(Number)
  .filter((count) => count > 0);
const churnCount = Number(values.churn);
const quietSeconds = Number(values["quiet-seconds"]);
const signal = interruptSignal();
const main = await released("cocoon-operator", "packages/operator/src/main.ts");

/** Fresh for each run: what one leaves behind would slow the next. */
async function onPlatform<T>(tls: boolean, run: (platform: Platform) => Promise<T>): Promise<T> {
  await using cluster = await ownControlPlane({ controllers: false });
  await installCrds(cluster);
  await using platform = await startPlatform({ cluster, main, tls, signal });
  const result = await run(platform);
  console.log(`# ${JSON.stringify(result)}`);
  return result;
}

async function measure(platform: Platform, count: number) {
  const sets = { prefix: "set", count };
  const before = await platform.readNumbers();
  const started = performance.now();
  await createSets(platform, sets);
  const created = performance.now();
  await reachAll(platform, sets);
  const settled = performance.now();
  const after = await platform.readNumbers();
  await sleep(3_000, { signal });
  const quiet = await platform.readNumbers();
  await sleep(quietSeconds * 1_000, { signal });
  const later = await platform.readNumbers();
  const calls = later.writes + later.reads + later.events - quiet.writes - quiet.reads - quiet.events;
  return {
    sets: count,
    createSeconds: (created - started) / 1_000,
    settleSeconds: (settled - created) / 1_000,
    writesPerSet: (after.writes - before.writes) / count,
    writesByKind: after.kinds,
    eventsPerSet: (after.events - before.events) / count,
    conflicts: after.conflicts - before.conflicts,
    cpuSecondsPerSet: (after.cpuSeconds - before.cpuSeconds) / count,
    residentMB: later.residentMB,
    steadyCallsPerMinute: (calls / quietSeconds) * 60,
  };
}

const reference = {
  sets: 300,
  settleSeconds: 2,
  writesPerSet: 11,
  residentMB: 72,
  cpuSecondsPerSet: 8 / 300,
};

type Result = Awaited<ReturnType<typeof measure>>;

function creationTargets(results: readonly Result[]): Target[] {
  const [first] = results;
  const last = results.at(-1);
  /** The targets speak of this many. */
  const usual = results.find((result) => result.sets === 1_000) ?? last;
  if (!first || !last || !usual) return [];
  const { residentMB, cpuSecondsPerSet } = reference;
  return [
    { name: "own writes per set", value: usual.writesPerSet, want: "<= 6" },
    { name: "steady-state calls per minute", value: usual.steadyCallsPerMinute, want: "<= 0" },
    { name: "conflicts per set", value: usual.conflicts / usual.sets, want: "<= 0.05" },
    { name: "CPU seconds per set", value: usual.cpuSecondsPerSet, want: `<= ${cpuSecondsPerSet}` },
    {
      name: "resident MB, as a multiple of the reference",
      value: first.residentMB / residentMB,
      want: "<= 1.5",
    },
    {
      name: "CPU per set, largest against smallest run",
      value: last.cpuSecondsPerSet / first.cpuSecondsPerSet,
      want: "<= 1.2",
    },
  ];
}

const results: Result[] = [];
for (const count of counts) results.push(await onPlatform(false, (platform) => measure(platform, count)));
const churn =
  churnCount > 0 ? await onPlatform(true, (platform) => measureChurn(platform, churnCount)) : undefined;
const churnTargets: Target[] = churn
  ? [
      {
        name: "time to all Running beside deletions, as a multiple of alone",
        value: churn.churnSeconds / churn.aloneSeconds,
        want: "<= 1.5",
      },
      {
        name: "CPU per deletion, as a multiple of a creation",
        value: churn.cpuPerDeletion / churn.cpuPerCreation,
        want: "<= 1.5",
      },
      { name: "conflicts during churn", value: churn.conflicts, want: "<= 0" },
    ]
  : [];
printReport({
  bench: "operator",
  figures: { results, churn, reference },
  targets: [...creationTargets(results), ...churnTargets],
});
