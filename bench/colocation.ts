/**
 * What the colocation webhooks cost: mutate-pod with 50 profiles of which several match, and validate-pod with 500
 * quotas, over TLS with 64 kept-alive connections. Requests per second at most (closed loop), then latency at 1,000 a
 * second (open loop). Beside it, in the same run, a webhook made with controller-runtime that decides nothing: what is
 * above it is the price of the rules. Server and load generator have a core each.
 *
 *   --rounds N      measurements of each kind (5); the order alternates
 *   --seconds N     length of one measurement (3)
 *   --rate N        fixed rate (1000)
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { createSelfSignedPair } from "@cocoon/kube/certificates";
import { podReviewText } from "./admission-echo/bodies.ts";
import { build, load, pinning, startPeer, type Peer } from "./admission-echo/peers.ts";
import { released } from "./support/released.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    seconds: { type: "string", default: "3" },
    rate: { type: "string", default: "1000" },
  },
});
const connections = 64;
/** As deploy/colocation starts it. */
const nodeOptions = ["--max-semi-space-size=4"];
await measureAll();

interface Subject {
  readonly name: string;
  readonly peer: Peer;
  readonly path: string;
}

async function measureAll(): Promise<void> {
  const loadProgram = build("admission-load");
  const echoProgram = build("echo-webhook");
  const place = mkdtempSync(join(tmpdir(), "bench-colocation-"));
  try {
    const validity = { nowMs: Date.now(), forMs: 86_400_000, backdateMs: 60_000 };
    const pair = await createSelfSignedPair({ commonName: "localhost", hosts: ["127.0.0.1"] }, validity);
    writeFileSync(join(place, "tls.crt"), pair.certificate);
    writeFileSync(join(place, "tls.key"), pair.privateKey, { mode: 0o600 });
    const bodyFile = join(place, "pod.json");
    writeFileSync(bodyFile, podReviewText(3000));
    const program = await released("colocation-server", "bench/colocation/server.ts");
    await using ours = await startPeer("ours", (at) => [
      process.execPath,
      ...nodeOptions,
      program,
      String(at),
      place,
    ]);
    await using echo = await startPeer("echo", (at) => [echoProgram, `-port=${at}`, `-cert-dir=${place}`]);
    const subjects: readonly Subject[] = [
      { name: "mutatePod50Profiles", peer: ours, path: "/mutate-pod?timeout=10s" },
      { name: "validatePod500Quotas", peer: ours, path: "/validate-pod?timeout=10s" },
      { name: "controllerRuntimeEcho", peer: echo, path: "/mutate?timeout=10s" },
    ];
    const figures = measure(subjects, (subject, rate) =>
      load(loadProgram, {
        port: subject.peer.port,
        path: subject.path,
        bodyFile,
        connections,
        seconds: Number(values.seconds),
        warmUpSeconds: 1,
        rate,
      }),
    );
    console.log(JSON.stringify(report(figures, ours.residentMiB())));
  } finally {
    rmSync(place, { recursive: true });
  }
}

type Run = (subject: Subject, rate: number) => ReturnType<typeof load>;
type Figures = Readonly<
  Record<string, { readonly ceilingPerSecond: Summary; readonly p50Ms: Summary; readonly p99Ms: Summary }>
>;

interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

function measure(subjects: readonly Subject[], run: Run): Figures {
  for (const subject of subjects) run(subject, 0); // warm
  const rounds = Array.from({ length: Number(values.rounds) }, (_, round) =>
    round % 2 === 0 ? subjects : subjects.toReversed(),
  );
  const saturated = rounds.flat().map((subject) => ({ subject, report: run(subject, 0) }));
  const paced = rounds.flat().map((subject) => ({ subject, report: run(subject, Number(values.rate)) }));
  return Object.fromEntries(
    subjects.map((subject) => {
      const of = (taken: typeof paced, value: (report: ReturnType<typeof load>) => number) =>
        summary(taken.filter((each) => each.subject === subject).map(({ report }) => value(report)));
      return [
        subject.name,
        {
          ceilingPerSecond: of(saturated, (each) => each.perSecond),
          p50Ms: of(paced, (each) => each.p50Ms),
          p99Ms: of(paced, (each) => each.p99Ms),
        },
      ];
    }),
  );
}

function summary(taken: readonly number[]): Summary {
  const sorted = taken.toSorted((left, right) => left - right);
  const rounded = (value: number | undefined) => Number((value ?? Number.NaN).toPrecision(4));
  return {
    median: rounded(sorted[Math.floor((sorted.length - 1) / 2)]),
    low: rounded(sorted[0]),
    high: rounded(sorted.at(-1)),
  };
}

function report(figures: Figures, residentMiB: number): object {
  const targets = ["mutatePod50Profiles", "validatePod500Quotas"].map((name) => {
    const value = figures[name]?.p99Ms.median ?? Number.NaN;
    return { name: `${name}: p99 ms at ${values.rate} requests/s`, value, want: "<= 10", met: value <= 10 };
  });
  return {
    bench: "colocation",
    env: {
      node: process.version,
      cpu: cpus()[0]?.model,
      cores: cpus().length,
      loadAverage: loadavg().map((each) => Number(each.toFixed(2))),
      pinning: pinning ? `servers on core ${pinning.server}, load generator on core ${pinning.load}` : "none",
      connections,
      transport: "HTTP/1.1 over TLS 1.3, kept alive",
      rounds: Number(values.rounds),
      seconds: Number(values.seconds),
    },
    figures: { ...figures, residentMiB },
    targets,
  };
}
