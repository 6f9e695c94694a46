/**
 * Time to synced and resident memory of our cache against a client-go reflector, on the same API server in the same
 * run: pods of realistic size, each measurement in a fresh process, the order alternating.
 *
 *   --pods N     how many pods (10000)
 *   --rounds N   measurements of each (5)
 */
import { execFile, execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs, promisify } from "node:util";
import { silentLogger } from "@cocoon/core";
import { openCaches, openKubeClient, pods } from "@cocoon/kube";
import { ownControlPlane, temporaryDirectory } from "@cocoon/testkit";
import { fillWithPods } from "./cache/fill.ts";
import { printReport, spreadOf } from "./report.ts";

const run = promisify(execFile);
const settleMs = 2_000;

interface Measurement {
  readonly objects: number;
  readonly syncedMs: number;
  readonly residentKiB: number;
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { pods: { type: "string", default: "10000" }, rounds: { type: "string", default: "5" } },
});
const [command, kubeconfig = ""] = positionals;
if (command === "measure") await measureOurs(kubeconfig);
else await compare(Number(values.pods), Number(values.rounds));

async function measureOurs(path: string): Promise<void> {
  const began = performance.now();
  const { signal } = new AbortController();
  await using client = await openKubeClient({ kubeconfig: path, signal });
  await using caches = openCaches({ client, log: silentLogger });
  await using cache = caches.open(pods);
  await cache.synced({ signal });
  const syncedMs = performance.now() - began;
  await delay(settleMs);
  const resident = Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "latin1"))?.[1]);
  console.log(JSON.stringify({ objects: cache.size, syncedMs, residentKiB: resident }));
}

async function compare(count: number, rounds: number): Promise<void> {
  await using directory = await temporaryDirectory();
  const reflector = join(directory.path, "reflector");
  console.log("building the client-go reflector");
  execFileSync("go", ["build", "-o", reflector, "."], {
    cwd: join(import.meta.dirname, "peers", "reflector"),
    stdio: "inherit",
  });
  await using cluster = await ownControlPlane({ controllers: false });
  await using client = await openKubeClient({
    kubeconfig: cluster.kubeconfigPath,
    signal: AbortSignal.timeout(600_000),
  });
  console.log(`creating ${count} pods`);
  await fillWithPods(client, count, AbortSignal.timeout(600_000));
  const peers = {
    ours: [process.execPath, import.meta.filename, "measure", cluster.kubeconfigPath],
    clientGo: [
      reflector,
      "-kubeconfig",
      cluster.kubeconfigPath,
      "-settle",
      `${settleMs}ms`,
      "-expect",
      String(count),
    ],
  };
  const results: Record<keyof typeof peers, Measurement[]> = { ours: [], clientGo: [] };
  for (let round = -1; round < rounds; round += 1) {
    const order = round % 2 === 0 ? (["ours", "clientGo"] as const) : (["clientGo", "ours"] as const);
    for (const name of order) {
      const [program = "", ...args] = peers[name];
      const { stdout } = await run(program, args, { timeout: 120_000 });
      const measured = JSON.parse(stdout.trim().split("\n").at(-1) ?? "{}") as Measurement;
      console.log(
        `${round < 0 ? "warm-up " : ""}${name}: ${measured.syncedMs.toFixed(0)} ms, ${(measured.residentKiB / 1024).toFixed(0)} MiB, ${measured.objects} pods`,
      );
      if (round >= 0) results[name].push(measured);
    }
  }
  const time = (name: keyof typeof peers) => spreadOf(results[name].map((each) => each.syncedMs));
  const memory = (name: keyof typeof peers) => spreadOf(results[name].map((each) => each.residentKiB / 1024));
  printReport({
    bench: "cache",
    env: { pods: count, rounds },
    figures: {
      syncedMs: { ours: time("ours"), clientGo: time("clientGo") },
      residentMiB: { ours: memory("ours"), clientGo: memory("clientGo") },
    },
    targets: [
      {
        name: "time to synced, ours / client-go",
        value: ratio(time("ours").median, time("clientGo").median),
        want: "<= 1",
      },
      {
        name: "resident memory, ours / client-go",
        value: ratio(memory("ours").median, memory("clientGo").median),
        want: "<= 1.5",
      },
    ],
  });
}

function ratio(left: number, right: number): number {
  return Math.round((100 * left) / right) / 100;
}
