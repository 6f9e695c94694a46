/**
 * What a reservation costs: AdmissionReviews of 2,000 nameless pods of 20 Deployments in one pool, 64 at a time over TLS,
 * reservations in a real API server; against the plain approach (read-modify-write with retry per pod) in the same run,
 * in alternating order. Then the same through the API server, and what the validation endpoints do against an echo
 * webhook made with controller-runtime. API server, etcd, webhook and load generator share the machine.
 *
 *   --rounds N    measurements of each kind (3)
 *   --pods N      reviews of one measurement (2000)
 *   --seconds N   length of one measurement of the validation endpoints (3); 0 leaves them out
 */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { hostTaint, nodeLabel } from "@cocoon/contract";
import {
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  openKubeClient,
  pods,
  type KubeConnection,
  type Node,
  type Pod,
} from "@cocoon/kube";
import { createSelfSignedPair } from "@cocoon/kube/certificates";
import { freePort, ownControlPlane, type TestCluster } from "@cocoon/testkit";
import { burst, type BurstReport } from "./admission/burst.ts";
import { replicaPod, replicaReview, setReview, workloadReview } from "./admission/reviews.ts";
import { build, load, startPeer, type Peer } from "./admission-echo/peers.ts";
import { released } from "./support/released.ts";
import { printReport, computeSpread, type Spread, type Target } from "./report.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "3" },
    pods: { type: "string", default: "2000" },
    seconds: { type: "string", default: "3" },
  },
});
const concurrency = 64;
const deploymentCount = 20;
/** As deploy/webhook starts it. */
const nodeOptions = ["--max-semi-space-size=4", "--max-old-space-size=384"];
const environment = ["MALLOC_ARENA_MAX=1", "MALLOC_TRIM_THRESHOLD_=131072"];
/** After the load, until the webhook's memory is looked at: it gives back what it no longer needs once it is quiet. */
const quietMs = 15_000;
const webhook = await released("cocoon-webhook", "packages/webhook/src/main.ts");
const root = join(import.meta.dirname, "..");
const signal = new AbortController().signal;

const directory = mkdtempSync(join(tmpdir(), "bench-admission-"));
try {
  await run();
} finally {
  rmSync(directory, { recursive: true });
}

async function run(): Promise<void> {
  const validity = { nowMs: Date.now(), forMs: 86_400_000, backdateMs: 60_000 };
  const pair = await createSelfSignedPair({ commonName: "localhost", hosts: ["127.0.0.1"] }, validity);
  writeFileSync(join(directory, "tls.crt"), pair.certificate);
  writeFileSync(join(directory, "tls.key"), pair.privateKey, { mode: 0o600 });
  await using cluster = await ownControlPlane({ durable: true, controllers: false });
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  await prepare(cluster, client);
  await using ours = await startServer("ours", cluster);
  await using plain = await startServer("plain", cluster);
  const reservations = await compare(ours, plain);
  const throughServer = await createPods(client, { port: ours.port, ca: pair.certificate });
  const loadedMiB = ours.residentMiB();
  await new Promise((resolve) => setTimeout(resolve, quietMs));
  const residentMiB = ours.residentMiB();
  const validation = Number(values.seconds) > 0 ? await compareValidation(ours) : undefined;
  printReport({
    bench: "admission",
    env: {
      reviews: Number(values.pods),
      deployments: deploymentCount,
      concurrency,
      rounds: Number(values.rounds),
    },
    figures: { ...reservations, podsCreatedPerSecond: throughServer, loadedMiB, residentMiB, validation },
    targets: listTargets({ ...reservations, residentMiB, validation }),
  });
}

async function prepare(cluster: TestCluster, client: KubeConnection): Promise<void> {
  for (const name of ["cocoon-system", "shop"])
    await client.create(namespaces, { metadata: { name } }, { signal });
  const applied = await cluster.kubectl(["apply", "--server-side", "-f", join(root, "deploy/crds")]);
  if (applied.code !== 0) throw new Error(applied.stderr);
  const pools = Array.from({ length: Number(values.rounds) }, (_, round) => `ours-${round}`);
  for (const pool of [...pools, "warm", "served"])
    for (let host = 0; host < 4; host += 1) await createNode(client, `${pool}-host-${host}`, pool);
}

async function createNode(client: KubeConnection, name: string, pool: string): Promise<void> {
  const taints = [{ ...hostTaint }];
  const metadata = { name, labels: { [nodeLabel.pool]: pool } };
  await client.create<Node>(nodes, { metadata, spec: { taints } }, { signal });
  // The API server marks new nodes as not ready, and no component here takes that back.
  const body = { spec: { taints } };
  await client.patch(nodes, { key: { name }, patch: { type: "merge", body } }, { signal });
  const allocatable = { cpu: "10000", memory: "64Ti", pods: "100000" };
  const conditions = [{ type: "Ready", status: "True", lastHeartbeatTime: new Date().toISOString() }];
  const status = { status: { conditions, allocatable, capacity: allocatable } };
  const patch = { type: "merge", body: status } as const;
  await client.patch(nodes, { key: { name }, patch }, { signal, subresource: "status" });
}

type Server = Peer & { readonly metricsPort: number };

async function startServer(name: "ours" | "plain", cluster: TestCluster): Promise<Server> {
  const metricsPort = await freePort();
  const peer = await startPeer(name, (port) =>
    name === "plain"
      ? [
          process.execPath,
          join(root, "bench/admission/plain-server.ts"),
          String(port),
          directory,
          cluster.kubeconfigPath,
        ]
      : [
          "env",
          ...environment,
          process.execPath,
          ...nodeOptions,
          webhook,
          `--kubeconfig=${cluster.kubeconfigPath}`,
          `--listen-addr=127.0.0.1:${port}`,
          `--metrics-addr=127.0.0.1:${metricsPort}`,
          `--tls-cert=${join(directory, "tls.crt")}`,
          `--tls-key=${join(directory, "tls.key")}`,
          "--log-level=warn",
        ],
  );
  return Object.assign(peer, { metricsPort });
}

function bodiesFor(pool: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) =>
    replicaReview({ pool, namespace: "shop", deployment: `${pool}-d${index % deploymentCount}` }),
  );
}

async function countWrites({ metricsPort }: Server): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  return Number(/^cocoon_webhook_store_writes_total (\d+)/m.exec(text)?.[1] ?? 0);
}

interface Comparison {
  readonly ours: readonly (BurstReport & { readonly writesPerAdmission: number })[];
  readonly plain: readonly BurstReport[];
}

async function compare(ours: Server, plain: Server): Promise<ReturnType<typeof computeFigures>> {
  const count = Number(values.pods);
  await burst({ port: ours.port, bodies: bodiesFor("warm", 500), concurrency, forMs: 30_000 });
  const taken: { ours: Comparison["ours"][number][]; plain: BurstReport[] } = { ours: [], plain: [] };
  for (let round = 0; round < Number(values.rounds); round += 1) {
    const takeOurs = async () => {
      const before = await countWrites(ours);
      const report = await burst({
        port: ours.port,
        bodies: bodiesFor(`ours-${round}`, count),
        concurrency,
        forMs: 60_000,
      });
      const writesPerAdmission = ((await countWrites(ours)) - before) / report.answered;
      taken.ours.push({ ...report, writesPerAdmission });
    };
    const takePlain = async () => {
      const bodies = bodiesFor(`plain-${round}`, count);
      taken.plain.push(await burst({ port: plain.port, bodies, concurrency, forMs: 8_000 }));
    };
    for (const take of round % 2 === 0 ? [takeOurs, takePlain] : [takePlain, takeOurs]) await take();
  }
  return computeFigures(taken);
}

function computeFigures({ ours, plain }: Comparison) {
  const of = <T>(reports: readonly T[], value: (report: T) => number) =>
    rounded(computeSpread(reports.map(value)));
  return {
    admissionsPerSecond: of(ours, (report) => report.perSecond),
    p50Ms: of(ours, (report) => report.p50Ms),
    p99Ms: of(ours, (report) => report.p99Ms),
    duplicates: ours.reduce((sum, report) => sum + report.duplicates, 0),
    refused: ours.reduce((sum, report) => sum + report.refused, 0),
    writesPerAdmission: of(ours, (report) => report.writesPerAdmission),
    plainPerSecond: of(plain, (report) => report.perSecond),
    plainP99Ms: of(plain, (report) => report.p99Ms),
  };
}

function rounded({ median, low, high }: Spread): Spread {
  const round = (value: number) => Number(value.toPrecision(4));
  return { median: round(median), low: round(low), high: round(high) };
}

/** The same pods, created for real: the API server asks us for each. */
async function createPods(
  client: KubeConnection,
  { port, ca }: { port: number; ca: string },
): Promise<number> {
  const rules = [
    { apiGroups: [""], apiVersions: ["v1"], operations: ["CREATE"], resources: ["pods"], scope: "*" },
  ];
  const webhook = {
    name: "pods.mutate.cocoonstack.io",
    admissionReviewVersions: ["v1"],
    sideEffects: "NoneOnDryRun",
    failurePolicy: "Fail",
    timeoutSeconds: 10,
    rules,
    clientConfig: { url: `https://127.0.0.1:${port}/mutate`, caBundle: Buffer.from(ca).toString("base64") },
  };
  await client.create(
    mutatingWebhookConfigurations,
    { metadata: { name: "bench" }, webhooks: [webhook] },
    { signal },
  );
  const total = 500;
  let next = 0;
  const started = performance.now();
  const worker = async () => {
    while (next < total) {
      const deployment = `served-d${next % deploymentCount}`;
      next += 1;
      await client.create(pods, replicaPod({ pool: "served", namespace: "shop", deployment }) as Pod, {
        signal,
      });
    }
  };
  await Promise.all(Array.from({ length: 32 }, worker));
  await client.delete(mutatingWebhookConfigurations, { name: "bench" }, { signal });
  return Math.round(total / ((performance.now() - started) / 1000));
}

type Validation = Readonly<Record<string, { ours: Spread; echo: Spread; ratio: number }>>;

/** Our validation endpoints and the echo webhook, each with a body of its own kind of the same size. */
async function compareValidation(ours: Peer): Promise<Validation> {
  const loadProgram = build("admission-load");
  const echoProgram = build("echo-webhook");
  await using echo = await startPeer("echo", (port) => [
    echoProgram,
    `-port=${port}`,
    `-cert-dir=${directory}`,
  ]);
  const seconds = Number(values.seconds);
  const found: Record<string, { ours: Spread; echo: Spread; ratio: number }> = {};
  for (const [path, body] of Object.entries({
    "/validate": workloadReview(),
    "/validate-cocoonset": setReview(),
  })) {
    const bodyFile = join(directory, "body.json");
    writeFileSync(bodyFile, body);
    const common = { bodyFile, connections: concurrency, seconds, warmUpSeconds: 1, rate: 0 };
    const take = {
      ours: () => load(loadProgram, { ...common, port: ours.port, path: `${path}?timeout=5s` }).perSecond,
      echo: () => load(loadProgram, { ...common, port: echo.port }).perSecond,
    };
    const taken = { ours: [] as number[], echo: [] as number[] };
    for (let round = 0; round < Number(values.rounds); round += 1)
      for (const who of round % 2 === 0 ? (["ours", "echo"] as const) : (["echo", "ours"] as const))
        taken[who].push(take[who]());
    const [one, other] = [rounded(computeSpread(taken.ours)), rounded(computeSpread(taken.echo))];
    found[path] = { ours: one, echo: other, ratio: Number((one.median / other.median).toPrecision(3)) };
  }
  return found;
}

type Figures = ReturnType<typeof computeFigures> & {
  readonly residentMiB: number;
  readonly validation: Validation | undefined;
};

function listTargets(figures: Figures): Target[] {
  const { admissionsPerSecond, p99Ms, duplicates, plainPerSecond, writesPerAdmission, residentMiB } = figures;
  const ratio = Number((admissionsPerSecond.median / plainPerSecond.median).toPrecision(3));
  return [
    { name: "admissions per second", value: admissionsPerSecond.median, want: ">= 1000" },
    { name: "p99, ms", value: p99Ms.median, want: "< 250" },
    { name: "duplicate names", value: duplicates, want: "<= 0" },
    { name: "times the plain approach", value: ratio, want: ">= 20" },
    { name: "API writes per admission", value: writesPerAdmission.median, want: "<= 0.1" },
    { name: "resident memory after load, MiB", value: residentMiB, want: "< 120" },
    ...Object.entries(figures.validation ?? {}).map(([path, each]) => ({
      name: `${path}: throughput, times the echo webhook`,
      value: each.ratio,
      want: "> 1",
    })),
  ];
}
