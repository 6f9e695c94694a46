/**
 * What it costs to have all pods of a cluster in memory: our cache against a client-go reflector, both with managed
 * fields dropped, on the same API server, each run in a fresh process, in alternating order.
 *
 * - ours: as a program opens it by default; `trimmed` with a transform that keeps what a scheduler would read
 * - client-go: as its clients are by default (JSON), and with protobuf, which it has for built-in kinds only
 *
 * Time counts from opening the kubeconfig, and also from the start of the process, loading of modules included. Memory
 * is what the kernel says is resident two seconds after the sync; no garbage collection is requested.
 *
 *   --pods N      10,000 unless said otherwise
 *   --rounds N    runs of each (5)
 */
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openKubeClient } from "@cocoon/kube";
import { ownControlPlane } from "@cocoon/testkit";
import { fillWithPods } from "./cache/fill.ts";
import { buildReflector, goVersion, run, type Run } from "./cache/programs.ts";
import { printReport, computeSpread, type Spread } from "./report.ts";

const { values } = parseArgs({
  options: { pods: { type: "string", default: "10000" }, rounds: { type: "string", default: "5" } },
});
const pods = Number(values.pods);
const rounds = Number(values.rounds);
const { signal } = new AbortController();

const reflector = buildReflector();
await using cluster = await ownControlPlane({ controllers: false });
await fill();

const script = fileURLToPath(import.meta.resolve("./cache/sync-once.ts"));
const ours = [process.execPath, script, cluster.kubeconfigPath, String(pods)];
const clientGo = [reflector, "-kubeconfig", cluster.kubeconfigPath, "-expect", String(pods)];
const programs: Readonly<Record<string, readonly string[]>> = {
  ours,
  clientGo,
  clientGoProtobuf: [...clientGo, "-content-type", "application/vnd.kubernetes.protobuf"],
  oursTrimmed: [...ours, "trimmed"],
};

const runs = new Map<string, Run[]>();
for (let round = 0; round <= rounds; round += 1) {
  const order = Object.entries(programs);
  for (const [name, argv] of round % 2 === 0 ? order : order.toReversed()) {
    const result = await run(argv);
    console.log(`${round === 0 ? "warm-up" : `round ${round}`} ${name}: ${describe(result)}`);
    if (round > 0) runs.set(name, [...(runs.get(name) ?? []), result]);
  }
}
report();

async function fill(): Promise<void> {
  const began = performance.now();
  await using client = await openKubeClient({
    kubeconfig: cluster.kubeconfigPath,
    signal,
    timeoutMs: 120_000,
  });
  await fillWithPods(client, pods, signal);
  console.log(`${pods} pods created in ${seconds(performance.now() - began)}`);
}

function describe({ objects, syncedMs, fromStartMs, residentKiB, cpuMs }: Run): string {
  const time = `synced in ${seconds(syncedMs)} (${seconds(fromStartMs)} from start, ${seconds(cpuMs)} of processor)`;
  return `${objects} pods, ${time}, ${Math.round(residentKiB / 1024)} MiB`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

function spread(name: string, figure: (each: Run) => number): Spread {
  const { median, low, high } = computeSpread((runs.get(name) ?? []).map(figure));
  return { median: Math.round(median), low: Math.round(low), high: Math.round(high) };
}

function ratio(peer: string, figure: (each: Run) => number): number {
  return Math.round((100 * spread("ours", figure).median) / spread(peer, figure).median) / 100;
}

function report(): void {
  const figure = {
    syncedMs: (each: Run) => each.syncedMs,
    fromStartMs: (each: Run) => each.fromStartMs,
    cpuMs: (each: Run) => each.cpuMs,
    residentMiB: (each: Run) => each.residentKiB / 1024,
    peakMiB: (each: Run) => each.peakKiB / 1024,
  };
  const all = Object.entries(figure).map(([name, of]) => {
    const perProgram = Object.keys(programs).map((program) => [program, spread(program, of)] as const);
    return [name, Object.fromEntries(perProgram)] as const;
  });
  printReport({
    bench: "cache",
    env: { pods, rounds, go: goVersion() },
    figures: {
      ...Object.fromEntries(all),
      againstProtobuf: {
        syncedMs: ratio("clientGoProtobuf", figure.syncedMs),
        residentMiB: ratio("clientGoProtobuf", figure.residentMiB),
      },
    },
    targets: [
      { name: "time to synced, ours / client-go", value: ratio("clientGo", figure.syncedMs), want: "<= 1" },
      {
        name: "time from process start to synced, ours / client-go",
        value: ratio("clientGo", figure.fromStartMs),
        want: "<= 1",
      },
      {
        name: "resident memory, ours / client-go",
        value: ratio("clientGo", figure.residentMiB),
        want: "<= 1.5",
      },
    ],
  });
}
