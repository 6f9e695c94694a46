/**
 * What it costs to have all pods of a cluster in memory: our cache against a client-go reflector, both with managed
 * fields dropped, on the same API server, each run in a fresh process, in alternating order.
 *
 * - ours: as a program opens it by default; `trimmed` with a transform that keeps what a scheduler would read
 * - client-go: as its clients are by default (JSON), and with protobuf, which it has for built-in kinds only
 *
 * Time counts from the start of the process, module loading included, and from opening the kubeconfig. Memory is what
 * the kernel says is resident two seconds after the sync, with no garbage collection asked for.
 *
 *   --pods N      10,000 unless said otherwise
 *   --rounds N    runs of each (5)
 */
import { cpus, loadavg } from "node:os";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { openKubeClient } from "@cocoon/kube";
import { ownControlPlane } from "@cocoon/testkit";
import { fillWithPods } from "./cache/fill.ts";
import { buildReflector, goVersion, run, type Run } from "./cache/programs.ts";

const { values } = parseArgs({
  options: { pods: { type: "string", default: "10000" }, rounds: { type: "string", default: "5" } },
});
await compare(Number(values.pods), Number(values.rounds));

async function compare(pods: number, rounds: number): Promise<void> {
  const { signal } = new AbortController();
  const reflector = buildReflector();
  await using cluster = await ownControlPlane({ controllers: false });
  const began = performance.now();
  {
    await using client = await openKubeClient({
      kubeconfig: cluster.kubeconfigPath,
      signal,
      timeoutMs: 120_000,
    });
    await fillWithPods(client, pods, signal);
  }
  console.log(`${pods} pods created in ${seconds(performance.now() - began)}`);
  const script = fileURLToPath(import.meta.resolve("./cache/sync-once.ts"));
  const own = [process.execPath, script, cluster.kubeconfigPath, String(pods)];
  const go = [reflector, "-kubeconfig", cluster.kubeconfigPath, "-expect", String(pods)];
  const programs: Readonly<Record<string, readonly string[]>> = {
    ours: own,
    clientGoJson: go,
    clientGoProtobuf: [...go, "-content-type", "application/vnd.kubernetes.protobuf"],
    oursTrimmed: [...own, "trimmed"],
  };
  const runs: Record<string, Run[]> = Object.fromEntries(Object.keys(programs).map((name) => [name, []]));
  for (const argv of Object.values(programs)) await run(argv); // warms what disks and servers keep
  for (let round = 0; round < rounds; round += 1) {
    const order = Object.entries(programs);
    for (const [name, argv] of round % 2 === 0 ? order : order.toReversed()) {
      const result = await run(argv);
      runs[name]?.push(result);
      console.log(`round ${round + 1} ${name.padEnd(16)} ${describe(result)}`);
    }
  }
  console.log(JSON.stringify(report({ pods, rounds, runs })));
}

function describe({ syncedMs, fromStartMs, residentKiB, cpuMs }: Run): string {
  return `synced ${seconds(syncedMs)} (${seconds(fromStartMs)} from start), ${Math.round(residentKiB / 1024)} MiB, ${seconds(cpuMs)} of processor time`;
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(2)} s`;
}

interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

function summary(numbers: readonly number[]): Summary {
  const sorted = numbers.toSorted((one, other) => one - other);
  const at = (index: number) => Math.round(sorted[index] ?? Number.NaN);
  return { median: at(Math.floor(sorted.length / 2)), low: at(0), high: at(sorted.length - 1) };
}

interface Measured {
  readonly pods: number;
  readonly rounds: number;
  readonly runs: Readonly<Record<string, readonly Run[]>>;
}

function report({ pods, rounds, runs }: Measured): unknown {
  const of = (name: string, figure: keyof Run) => summary((runs[name] ?? []).map((each) => each[figure]));
  const ratio = (figure: keyof Run, peer: string) => of("ours", figure).median / of(peer, figure).median;
  const figures = Object.fromEntries(
    Object.keys(runs).map((name) => [
      name,
      {
        syncedMs: of(name, "syncedMs"),
        fromStartMs: of(name, "fromStartMs"),
        residentKiB: of(name, "residentKiB"),
        peakKiB: of(name, "peakKiB"),
        cpuMs: of(name, "cpuMs"),
      },
    ]),
  );
  const target = (name: string, value: number, limit: number) => ({
    name,
    value: Number(value.toFixed(3)),
    want: `<= ${limit}`,
    met: value <= limit,
  });
  return {
    bench: "cache",
    env: { pods, rounds, cpus: cpus().length, load: loadavg(), node: process.version, go: goVersion() },
    figures: {
      ...figures,
      timeAgainstProtobuf: Number(ratio("syncedMs", "clientGoProtobuf").toFixed(3)),
      memoryAgainstProtobuf: Number(ratio("residentKiB", "clientGoProtobuf").toFixed(3)),
    },
    targets: [
      target("time to synced / client-go", ratio("syncedMs", "clientGoJson"), 1),
      target("time from process start to synced / client-go", ratio("fromStartMs", "clientGoJson"), 1),
      target("resident memory / client-go", ratio("residentKiB", "clientGoJson"), 1.5),
    ],
  };
}
