/**
 * The operator as a process of its own, on a control plane of its own, with a stand-in for kubelets that answers at once.
 *
 *   npm run bench -- operator [--sets 300,1000,5000] [--quiet-seconds 30]
 *
 * For each number: that many sets of four pods (main, two sub-agents, one toolbox) are created, 16 at a time; then it
 * waits until all are Running, and counts what the operator itself sent. CPU, memory and requests are the process's
 * own metrics. No scheduler runs (it limits itself to 50 requests a second): the stand-in gives pods their nodes too. The
 * API server, etcd, the stand-in and this program share the same cores. The reference of the Go operator (300 sets: about 2 s, 11 writes, 72 MB, 8 CPU seconds) was measured on two cores elsewhere.
 */
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sleep, startProgram } from "@cocoon/core";
import {
  namespaces,
  openKubeClient,
  resourceType,
  serviceAccounts,
  type KubeConnection,
  type KubeObject,
} from "@cocoon/kube";
import { fixedCredential, openRegistry } from "@cocoon/oci";
import { startRegistry } from "@cocoon/registry";
import { eventually, ownControlPlane, temporaryDirectory, type TestCluster, freePort } from "@cocoon/testkit";
import { installCrds } from "../test/integration/contract/install-crds.ts";
import { StandInKubelet } from "../test/integration/operator/stand-in-kubelet.ts";
import { printReport } from "./report.ts";
import { released } from "./support/released.ts";

const { values } = parseArgs({
  options: {
    sets: { type: "string", default: "300,1000,5000" },
    "quiet-seconds": { type: "string", default: "30" },
  },
});
const counts = values.sets.split(",").map(Number);
const quietSeconds = Number(values["quiet-seconds"]);
/** As in deploy/operator. */
const nodeOptions = ["--max-semi-space-size=2"];
const main = await released("cocoon-operator", "packages/operator/src/main.ts");
const { signal } = new AbortController();

interface SetObject extends KubeObject {
  readonly spec?: unknown;
  readonly status?: { readonly phase?: string };
}
const sets = resourceType<SetObject>({
  group: "cocoonset.cocoonstack.io",
  version: "v1",
  kind: "CocoonSet",
  plural: "cocoonsets",
  namespaced: true,
});

interface Numbers {
  readonly writes: number;
  /** By verb and resource. */
  readonly kinds: Readonly<Record<string, number>>;
  readonly reads: number;
  readonly conflicts: number;
  readonly events: number;
  readonly cpuSeconds: number;
  readonly residentMB: number;
}

async function numbersAt(port: number): Promise<Numbers> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  const requests = [...text.matchAll(/^kube_client_requests_total\{(.*)\} (\d+)$/gm)].map(
    ([, labels = "", value]) => ({
      labels: Object.fromEntries(
        [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, key = "", each = ""]) => [key, each]),
      ),
      value: Number(value),
    }),
  );
  const sum = (test: (labels: Record<string, string | undefined>) => boolean) =>
    requests.filter(({ labels }) => test(labels)).reduce((total, { value }) => total + value, 0);
  const single = (name: string) => Number(new RegExp(`^${name} (.*)$`, "m").exec(text)?.[1] ?? Number.NaN);
  const isWrite = (verb = "") => ["create", "update", "patch", "delete"].includes(verb);
  return {
    writes: sum(({ verb, resource }) => isWrite(verb) && resource !== "events"),
    kinds: Object.fromEntries(
      requests
        .filter(({ labels }) => isWrite(labels["verb"]))
        .map(({ labels, value }) => [
          `${labels["verb"]} ${labels["resource"]}${labels["subresource"] ? `/${labels["subresource"]}` : ""} ${labels["code"]}`,
          value,
        ]),
    ),
    events: sum(({ verb, resource }) => isWrite(verb) && resource === "events"),
    reads: sum(({ verb }) => verb === "get" || verb === "list"),
    conflicts: sum(({ code }) => code === "409"),
    cpuSeconds: single("process_cpu_seconds_total"),
    residentMB: single("process_resident_memory_bytes") / 1e6,
  };
}

function specOf(pool: string): object {
  return {
    nodePool: pool,
    agent: { image: "team/base:v1", replicas: 2, probePort: 22 },
    toolboxes: [{ name: "box", image: "tools:v1" }],
  };
}

async function createAll(connection: KubeConnection, namespace: string, count: number): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) {
      const name = `set-${(next += 1)}`;
      await connection.create(sets, { metadata: { namespace, name }, spec: specOf("bench") }, { signal });
    }
  };
  await Promise.all(Array.from({ length: 16 }, worker));
}

async function allRunning(connection: KubeConnection, namespace: string): Promise<void> {
  await eventually(
    async () => {
      for await (const { items } of connection.pages(sets, { namespace, signal, limit: 500 })) {
        const waiting = items.filter(({ status }) => status?.phase !== "Running").length;
        if (waiting > 0) throw new Error(`${waiting} sets are not Running`);
      }
    },
    { timeoutMs: 540_000, intervalMs: 500 },
  );
}

interface Result {
  readonly sets: number;
  readonly createSeconds: number;
  readonly settleSeconds: number;
  readonly writesPerSet: number;
  readonly writesByKind: Readonly<Record<string, number>>;
  readonly eventsPerSet: number;
  readonly conflicts: number;
  readonly cpuSecondsPerSet: number;
  readonly residentMB: number;
  readonly steadyCallsPerMinute: number;
}

async function measure(cluster: TestCluster, count: number): Promise<Result> {
  await using stack = new AsyncDisposableStack();
  const namespace = "bench";
  const server = stack.use(await startRegistry({ storage: { kind: "memory" } }));
  const token = await server.createToken({ name: "bench" });
  const credentials = fixedCredential({ kind: "bearer", token });
  const registry = stack.use(openRegistry({ address: server.url, credentials }));
  const connection = stack.use(await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal }));
  await connection.create(namespaces, { metadata: { name: namespace } }, { signal });
  await connection.create(serviceAccounts, { metadata: { namespace, name: "default" } }, { signal });
  const nodeNames = Array.from({ length: 4 }, (_, index) => `bench-${count}-${index}`);
  stack.use(
    await new StandInKubelet({
      connection,
      registry,
      namespace,
      pool: "bench",
      nodeNames,
      bindsPods: true,
    }).start(),
  );
  const [metricsPort, probePort] = [await freePort(), await freePort()];
  const directory = stack.use(await temporaryDirectory());
  const operator = stack.use(
    await startProgram({
      name: "cocoon-operator",
      command: process.execPath,
      args: [...nodeOptions, main],
      env: {
        PATH: process.env["PATH"] ?? "",
        HOME: directory.path,
        KUBECONFIG: cluster.kubeconfigPath,
        OCI_REGISTRY: server.url,
        EPOCH_TOKEN: token,
        METRICS_ADDR: `127.0.0.1:${metricsPort}`,
        PROBE_ADDR: `127.0.0.1:${probePort}`,
        LEADER_ELECT: "false",
        MALLOC_ARENA_MAX: "1",
        MALLOC_TRIM_THRESHOLD_: "131072",
        WATCH_NAMESPACE: namespace,
        OPERATOR_LOG_LEVEL: "warn",
      },
      logFile: join(directory.path, "operator.log"),
    }),
  );
  void operator;
  await eventually(async () => {
    const answer = await fetch(`http://127.0.0.1:${probePort}/readyz`);
    if (answer.status !== 200) throw new Error(await answer.text());
  });
  const before = await numbersAt(metricsPort);
  const started = performance.now();
  await createAll(connection, namespace, count);
  const created = performance.now();
  await allRunning(connection, namespace);
  const settled = performance.now();
  const after = await numbersAt(metricsPort);
  await sleep(3_000, { signal });
  const quiet = await numbersAt(metricsPort);
  await sleep(quietSeconds * 1_000, { signal });
  const later = await numbersAt(metricsPort);
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

const results: Result[] = [];
for (const count of counts) {
  // Fresh for each: what one run leaves behind would slow the next.
  await using cluster = await ownControlPlane({ controllers: false });
  await installCrds(cluster);
  const result = await measure(cluster, count);
  console.log(`# ${JSON.stringify(result)}`);
  results.push(result);
}
const [first] = results;
const last = results.at(-1);
/** The targets speak of this many. */
const usual = results.find((result) => result.sets === 1_000) ?? last;
if (!first || !last || !usual) throw new Error("--sets names no number");
const reference = {
  sets: 300,
  settleSeconds: 2,
  writesPerSet: 11,
  residentMB: 72,
  cpuSecondsPerSet: 8 / 300,
};
printReport({
  bench: "operator",
  figures: { results, reference },
  targets: [
    { name: "own writes per set", value: usual.writesPerSet, want: "<= 6" },
    { name: "steady-state calls per minute", value: usual.steadyCallsPerMinute, want: "<= 0" },
    { name: "conflicts per set", value: usual.conflicts / usual.sets, want: "<= 0.05" },
    { name: "CPU seconds per set", value: usual.cpuSecondsPerSet, want: `<= ${reference.cpuSecondsPerSet}` },
    {
      name: "resident MB, as a multiple of the reference",
      value: first.residentMB / reference.residentMB,
      want: "<= 1.5",
    },
    {
      name: "CPU per set, largest against smallest run",
      value: last.cpuSecondsPerSet / first.cpuSecondsPerSet,
      want: "<= 1.2",
    },
  ],
});
