/** 500 pods on one node: how fast they become Ready, what that costs, and what they cost when nothing happens. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { openKubeClient, pods as podType, type KubeClient } from "@cocoon/kube";
import { temporaryDirectory, type OwnControlPlane } from "@cocoon/testkit";
import { computePercentiles, computeSpread, type Spread } from "../report.ts";
import type { WorkerReply, WorkerRequest } from "./messages.ts";
import { released } from "../support/released.ts";

export interface ManyPods {
  readonly pods: number;
  /** Over all bursts, each of which has a node and a process of its own; everything else is of the last one. */
  readonly podsPerSecond: Spread;
  /** CPU time of the kubelet from creation to Ready. */
  readonly cpuMsPerPod: number;
  readonly writesPerPod: Readonly<Record<string, number>>;
  readonly statusMs: { readonly p50: number; readonly p99: number };
  readonly emptyMiB: number;
  readonly fullMiB: number;
  readonly idleCallsPerMinute: Readonly<Record<string, number>>;
  readonly idleCpuPercent: number;
}

const mebibyte = 1024 * 1024;

/** A kubelet in a process of its own, which is asked by messages. */
interface Worker {
  ask(request: WorkerRequest): Promise<WorkerReply>;
  kill(): void;
}

/** As vk-cocoon is started: bundled, with a small young generation. */
async function startWorker(args: readonly string[]): Promise<Worker> {
  const script = await released("node-worker", "bench/kubelet/node-worker.ts");
  const child = fork(script, [...args], { execArgv: ["--max-semi-space-size=2"] });
  const ended = once(child, "exit").then((): never => {
    throw new Error("the kubelet's process ended");
  });
  ended.catch(() => undefined); // at the end that is as it should be
  const hear = async () => ((await Promise.race([once(child, "message"), ended])) as [WorkerReply])[0];
  await hear();
  return {
    ask: (request) => {
      const reply = hear();
      child.send(request);
      return reply;
    },
    kill: () => void child.kill("SIGKILL"),
  };
}

interface ManyPodsOptions {
  readonly pods: number;
  readonly bursts: number;
  readonly restarts: number;
  readonly idleMs: number;
}

export async function measureManyPods(cluster: OwnControlPlane, options: ManyPodsOptions): Promise<ManyPods> {
  await using client = await openKubeClient({
    kubeconfig: cluster.kubeconfigPath,
    signal: new AbortController().signal,
  });
  const rates: number[] = [];
  for (let burst = 1; burst < options.bursts; burst += 1) {
    await using started = await startNode(cluster, `early-node-${burst}`);
    rates.push(options.pods / (await createToReady(client, started, { prefix: `e${burst}-`, ...options })));
  }
  await using started = await startNode(cluster, "bench-node");
  const { worker } = started;
  const empty = await worker.ask({ kind: "usage" });
  const before = (await worker.ask({ kind: "calls" })).calls ?? {};
  rates.push(options.pods / (await createToReady(client, started, { prefix: "m", ...options })));
  const after = (await worker.ask({ kind: "calls" })).calls ?? {};
  const ready = await worker.ask({ kind: "usage" });
  return {
    pods: options.pods,
    podsPerSecond: computeSpread(rates),
    cpuMsPerPod: ((ready.cpuMicros ?? 0) - (empty.cpuMicros ?? 0)) / 1_000 / options.pods,
    writesPerPod: perPod(before, after, options.pods),
    statusMs: await measureRestarts(worker, options.restarts),
    emptyMiB: (empty.rssBytes ?? 0) / mebibyte,
    ...(await measureIdle(worker, options.idleMs)),
  };
}

interface StartedNode extends AsyncDisposable {
  readonly worker: Worker;
  readonly node: string;
}

async function startNode(cluster: OwnControlPlane, node: string): Promise<StartedNode> {
  const directory = await temporaryDirectory();
  const worker = await startWorker([cluster.kubeconfigPath, node, directory.path, cluster.layout.pki]);
  return {
    worker,
    node,
    [Symbol.asyncDispose]: async () => {
      worker.kill();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Seconds from the first creation until the API server has the last pod as Ready. */
async function createToReady(
  client: KubeClient,
  { worker, node }: StartedNode,
  { prefix, pods }: { readonly prefix: string; readonly pods: number },
): Promise<number> {
  const began = performance.now();
  await createAll(client, { prefix, node, pods });
  await allReady(worker, pods);
  return (performance.now() - began) / 1_000;
}

/** How long the API server waits for the news that a VM died and was started again. */
async function measureRestarts(worker: Worker, count: number): Promise<ManyPods["statusMs"]> {
  const took: number[] = [];
  for (let index = 0; index < count; index += 1) {
    const pod = `m${index}`;
    took.push((await worker.ask({ kind: "restart", vmName: `vk-${pod}`, pod })).tookMs ?? Number.NaN);
  }
  return computePercentiles(took);
}

function perPod(
  before: Readonly<Record<string, number>>,
  after: Readonly<Record<string, number>>,
  pods: number,
): Readonly<Record<string, number>> {
  const own = Object.keys(after).filter((what) => / pods/.test(what) && !what.startsWith("get"));
  return Object.fromEntries(own.map((what) => [what, ((after[what] ?? 0) - (before[what] ?? 0)) / pods]));
}

async function measureIdle(
  worker: Worker,
  idleMs: number,
): Promise<Pick<ManyPods, "fullMiB" | "idleCallsPerMinute" | "idleCpuPercent">> {
  // What the burst left behind is written and collected first.
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const [calls, usage] = [await worker.ask({ kind: "calls" }), await worker.ask({ kind: "usage" })];
  await new Promise((resolve) => setTimeout(resolve, idleMs));
  const [laterCalls, later] = [await worker.ask({ kind: "calls" }), await worker.ask({ kind: "usage" })];
  const minutes = idleMs / 60_000;
  const idleCallsPerMinute = Object.fromEntries(
    Object.entries(laterCalls.calls ?? {})
      .map(([what, count]) => [what, (count - (calls.calls?.[what] ?? 0)) / minutes] as const)
      .filter(([, count]) => count > 0),
  );
  const cpuMicros = (later.cpuMicros ?? 0) - (usage.cpuMicros ?? 0);
  return {
    fullMiB: (later.rssBytes ?? 0) / mebibyte,
    idleCallsPerMinute,
    idleCpuPercent: (100 * cpuMicros) / (idleMs * 1_000),
  };
}

export interface WaitingPods {
  /** What the load, the API server and etcd manage with no kubelet beside them. */
  readonly creationsPerSecond: number;
  /** Pods that were there when their node came up, from the first write of a status to the last. */
  readonly podsPerSecond: number;
}

/** The two halves on their own: pods created for a node that is away, then the node comes up. */
export async function measureWaitingPods(cluster: OwnControlPlane, pods: number): Promise<WaitingPods> {
  const node = "late-node";
  const { signal } = new AbortController();
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  const createSeconds = await createAll(client, { prefix: "w", node, pods });
  await using started = await startNode(cluster, node);
  const writingMs = await allReady(started.worker, pods);
  return { creationsPerSecond: pods / createSeconds, podsPerSecond: pods / (writingMs / 1_000) };
}

interface Creation {
  readonly prefix: string;
  readonly node: string;
  readonly pods: number;
}

/** Seconds that it took. */
async function createAll(client: KubeClient, { prefix, node, pods }: Creation): Promise<number> {
  const began = performance.now();
  const { signal } = new AbortController();
  const names = Array.from({ length: pods }, (_each, index) => `${prefix}${index}`);
  const create = async (): Promise<void> => {
    for (let name = names.pop(); name !== undefined; name = names.pop())
      await client.create(podType, podFor(name, node), { signal });
  };
  await Promise.all(Array.from({ length: 24 }, create));
  return (performance.now() - began) / 1_000;
}

/** Waits until the API server has the last pod as Ready; returns how long statuses were being written. */
async function allReady(worker: Worker, pods: number): Promise<number> {
  for (;;) {
    const { readyPods = 0, writingMs = 0 } = await worker.ask({ kind: "ready" });
    if (readyPods >= pods) return writingMs;
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function podFor(name: string, node: string) {
  const annotations = {
    "vm.cocoonstack.io/name": `vk-default-${name}`,
    "cocoonset.cocoonstack.io/managed": "true",
    "cocoonset.cocoonstack.io/mode": "run",
    "cocoonset.cocoonstack.io/image": "demo",
    "cocoonset.cocoonstack.io/snapshot-policy": "never",
  };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", annotations },
    spec: {
      nodeName: node,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      tolerations: [{ operator: "Exists" }],
      containers: [{ name: "agent", image: "demo" }],
    },
  };
}
