/**
 * What an admission server costs: ours against one made with controller-runtime, both answering every review with
 * "allowed" and one JSON patch, over TLS and HTTP/1.1 with 64 kept-alive connections, for pods of 3 KB and 30 KB.
 * Throughput at saturation (closed loop), then latency at one fixed rate for both (open loop), and the CPU time
 * of a request. Server and load generator have a core each.
 *
 *   --rounds N      measurements of each kind (5); the order of the peers alternates
 *   --seconds N     length of one measurement (5)
 *   --share F       fixed rate, as a share of what the slower peer can do at most (0.6)
 */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createSelfSignedPair } from "@cocoon/kube/certificates";
import { podReviewText } from "./admission-echo/bodies.ts";
import { build, load, pinning, startPeer, type LoadReport, type Peer } from "./admission-echo/peers.ts";
import { serveEcho } from "./admission-echo/server.ts";
import { undisturbed, whenQuiet, type Quiet } from "./support/quiet.ts";

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "5" },
    share: { type: "string", default: "0.6" },
  },
});
const connections = 64;
const [command, port, certificateDirectory] = positionals;
if (command === "serve") await serveEcho(Number(port), certificateDirectory ?? "");
else await compare();

interface Figures {
  readonly ours: Summary;
  readonly controllerRuntime: Summary;
}

interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

async function compare(): Promise<void> {
  const loadProgram = build("admission-load");
  const echoProgram = build("echo-webhook");
  const directory = mkdtempSync(join(tmpdir(), "bench-admission-"));
  try {
    const validity = { nowMs: Date.now(), forMs: 86_400_000, backdateMs: 60_000 };
    const pair = await createSelfSignedPair({ commonName: "localhost", hosts: ["127.0.0.1"] }, validity);
    writeFileSync(join(directory, "tls.crt"), pair.certificate);
    writeFileSync(join(directory, "tls.key"), pair.privateKey, { mode: 0o600 });
    const ourCommand = (at: number) => [
      process.execPath,
      import.meta.filename,
      "serve",
      String(at),
      directory,
    ];
    await using ours = await startPeer("ours", ourCommand);
    await using controllerRuntime = await startPeer("controllerRuntime", (at) => [
      echoProgram,
      `-port=${at}`,
      `-cert-dir=${directory}`,
    ]);
    const figures: Record<string, Awaited<ReturnType<typeof measure>>> = {};
    for (const kilobytes of [3, 30]) {
      const bodyFile = join(directory, `${kilobytes}.json`);
      writeFileSync(bodyFile, podReviewText(kilobytes * 1000));
      figures[`pod${kilobytes}KB`] = measure({ loadProgram, bodyFile, peers: [ours, controllerRuntime] });
    }
    console.log(JSON.stringify(report(figures)));
  } finally {
    rmSync(directory, { recursive: true });
  }
}

interface Measuring {
  readonly loadProgram: string;
  readonly bodyFile: string;
  readonly peers: readonly [Peer, Peer];
}

function measure({ loadProgram, bodyFile, peers }: Measuring) {
  const seconds = Number(values.seconds);
  const rounds = Number(values.rounds);
  const run = (peer: Peer, rate: number) =>
    load(loadProgram, { port: peer.port, bodyFile, connections, seconds, warmUpSeconds: 1, rate });
  for (const peer of peers) run(peer, 0); // warm: compiled, heap grown

  const saturated = alternating(peers, rounds, (peer) => measureSaturation(peer, () => run(peer, 0)));
  const perSecond = byPeer(saturated, ({ report }) => report.perSecond);
  const cpuMicroseconds = byPeer(saturated, ({ cpuMicroseconds }) => cpuMicroseconds);
  const rate = Math.floor(
    Number(values.share) * Math.min(perSecond.ours.median, perSecond.controllerRuntime.median),
  );
  const paced = alternating(peers, rounds, (peer) => ({ report: run(peer, rate) }));
  const generatorCpu = Math.max(...saturated.map(({ result }) => result.report.generatorCpu));
  return {
    bodyBytes: readFileSync(bodyFile).length,
    requestsPerSecond: perSecond,
    throughputRatio: ratio(perSecond),
    cpuMicrosecondsPerRequest: cpuMicroseconds,
    rate,
    p50Ms: byPeer(paced, ({ report }) => report.p50Ms),
    p99Ms: byPeer(paced, ({ report }) => report.p99Ms),
    p99Ratio: ratio(byPeer(paced, ({ report }) => report.p99Ms)),
    generatorCpu: rounded(generatorCpu),
    generatorLatenessP99Ms: rounded(Math.max(...paced.map(({ result }) => result.report.latenessP99Ms))),
    foreignCores: summary([...saturated, ...paced].map((each) => each.foreignCores)),
    residentMiB: Object.fromEntries(peers.map((peer) => [peer.name, peer.residentMiB()])),
  };
}

interface Taken<T> extends Quiet<T> {
  readonly peer: string;
}

function alternating<T>(peers: readonly Peer[], rounds: number, take: (peer: Peer) => T): Taken<T>[] {
  return Array.from({ length: rounds }, (_, round) => (round % 2 === 0 ? peers : peers.toReversed()))
    .flat()
    .map((peer) => {
      const cpuMs = () => peers.reduce((sum, each) => sum + each.cpuMs(), 0);
      return { peer: peer.name, ...whenQuiet(cpuMs, () => take(peer)) };
    });
}

function measureSaturation(peer: Peer, run: () => LoadReport) {
  const before = peer.cpuMs();
  const report = run();
  const seconds = Number(values.seconds);
  // The warm-up second is in the CPU time as well.
  const requests = report.requests * ((seconds + 1) / seconds);
  return { report, cpuMicroseconds: ((peer.cpuMs() - before) * 1000) / requests };
}

function byPeer<T>(taken: readonly Taken<T>[], value: (result: T) => number): Figures {
  const of = (peer: string) =>
    summary(
      undisturbed(
        taken.filter((each) => each.peer === peer),
        3,
      ).map(({ result }) => value(result)),
    );
  return { ours: of("ours"), controllerRuntime: of("controllerRuntime") };
}

function summary(taken: readonly number[]): Summary {
  const sorted = taken.toSorted((left, right) => left - right);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  return {
    median: rounded(middle),
    low: rounded(sorted[0] ?? Number.NaN),
    high: rounded(sorted.at(-1) ?? Number.NaN),
  };
}

function ratio({ ours, controllerRuntime }: Figures): number {
  return rounded(ours.median / controllerRuntime.median);
}

function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

function report(figures: Readonly<Record<string, ReturnType<typeof measure>>>): object {
  const targets = Object.entries(figures).flatMap(([name, { throughputRatio, p99Ratio }]) => [
    {
      name: `${name}: throughput, times controller-runtime`,
      value: throughputRatio,
      want: ">= 1.2",
      met: throughputRatio >= 1.2,
    },
    {
      name: `${name}: p99 at equal rate, times controller-runtime`,
      value: p99Ratio,
      want: "<= 0.8",
      met: p99Ratio <= 0.8,
    },
  ]);
  const modules = readFileSync(join(import.meta.dirname, "peers/echo-webhook/go.mod"), "utf8");
  return {
    bench: "admission-echo",
    env: {
      node: process.version,
      go: execFileSync("go", ["env", "GOVERSION"], { encoding: "utf8" }).trim(),
      controllerRuntime: /controller-runtime (v\S+)/.exec(modules)?.[1],
      cpu: cpus()[0]?.model,
      cores: cpus().length,
      loadAverage: loadavg().map(rounded),
      pinning: pinning ? `servers on core ${pinning.server}, load generator on core ${pinning.load}` : "none",
      connections,
      transport: "HTTP/1.1 over TLS 1.3, kept alive",
      rounds: Number(values.rounds),
      seconds: Number(values.seconds),
      share: Number(values.share),
    },
    figures,
    targets,
  };
}
