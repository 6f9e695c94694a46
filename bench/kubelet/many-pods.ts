/** 500 pods on one node: how fast they become Ready, what that costs, and what they cost when nothing happens. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { openKubeClient, pods as podType, type KubeClient } from "@cocoon/kube";
import { temporaryDirectory, type OwnControlPlane } from "@cocoon/testkit";
import { spreadOf } from "../report.ts";
import type { WorkerReply, WorkerRequest } from "./messages.ts";

export interface ManyPods {
  readonly pods: number;
  readonly readySeconds: number;
  readonly podsPerSecond: number;
  /** The same API server, asked by the same client for as many writes as these pods needed: the ceiling. */
  readonly writesPerPod: Readonly<Record<string, number>>;
  readonly statusMs: { readonly p50: number; readonly p99: number };
  readonly emptyMiB: number;
  readonly fullMiB: number;
  readonly idleCallsPerMinute: Readonly<Record<string, number>>;
  readonly idleCpuPercent: number;
}

const mebibyte = 1024 * 1024;

async function ask(child: ChildProcess, request: WorkerRequest): Promise<WorkerReply> {
  const reply = once(child, "message");
  child.send(request);
  return ((await reply) as [WorkerReply])[0];
}

export async function measureManyPods(
  cluster: OwnControlPlane,
  options: { readonly pods: number; readonly restarts: number; readonly idleMs: number },
): Promise<ManyPods> {
  const { signal } = new AbortController();
  const node = "bench-node";
  await using directory = await temporaryDirectory();
  await using client = await openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal });
  const script = fileURLToPath(import.meta.resolve("./node-worker.ts"));
  const child = fork(script, [cluster.kubeconfigPath, node, directory.path, cluster.layout.pki]);
  try {
    await once(child, "message");
    const empty = await ask(child, { kind: "usage" });
    const before = (await ask(child, { kind: "calls" })).calls ?? {};
    const readySeconds = await createAll(client, { node, pods: options.pods, signal });
    const after = (await ask(child, { kind: "calls" })).calls ?? {};
    const restarts: number[] = [];
    for (let index = 0; index < options.restarts; index += 1) {
      const pod = `m${index}`;
      restarts.push((await ask(child, { kind: "restart", vmName: `vk-${pod}`, pod })).tookMs ?? Number.NaN);
    }
    const idle = await measureIdle(child, options.idleMs);
    const sorted = restarts.toSorted((left, right) => left - right);
    return {
      pods: options.pods,
      readySeconds,
      podsPerSecond: options.pods / readySeconds,
      writesPerPod: perPod(before, after, options.pods),
      statusMs: {
        p50: spreadOf(sorted).median,
        p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN,
      },
      emptyMiB: (empty.rssBytes ?? 0) / mebibyte,
      ...idle,
    };
  } finally {
    child.kill("SIGKILL");
  }
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
  child: ChildProcess,
  idleMs: number,
): Promise<Pick<ManyPods, "fullMiB" | "idleCallsPerMinute" | "idleCpuPercent">> {
  // What the burst left behind is written and collected first.
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const [calls, usage] = [await ask(child, { kind: "calls" }), await ask(child, { kind: "usage" })];
  await new Promise((resolve) => setTimeout(resolve, idleMs));
  const [laterCalls, later] = [await ask(child, { kind: "calls" }), await ask(child, { kind: "usage" })];
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

interface Creation {
  readonly node: string;
  readonly pods: number;
  readonly signal: AbortSignal;
}

/** Seconds from the first creation until the last pod is Ready. */
async function createAll(client: KubeClient, { node, pods, signal }: Creation): Promise<number> {
  const began = performance.now();
  const waiting = new Set(Array.from({ length: pods }, (_each, index) => `m${index}`));
  const names = [...waiting];
  const allReady = watchReady(client, waiting, signal);
  const create = async (): Promise<void> => {
    for (let name = names.pop(); name !== undefined; name = names.pop())
      await client.create(podType, podFor(name, node) as never, { signal });
  };
  await Promise.all(Array.from({ length: 24 }, create));
  await allReady;
  return (performance.now() - began) / 1_000;
}

async function watchReady(client: KubeClient, waiting: Set<string>, signal: AbortSignal): Promise<void> {
  while (waiting.size > 0) {
    for await (const page of client.pages(podType, { namespace: "default", signal, limit: 500 }))
      for (const pod of page.items) if (isReady(pod)) waiting.delete(pod.metadata.name ?? "");
    if (waiting.size > 0) await new Promise((resolve) => setTimeout(resolve, 250));
  }
}

function isReady(pod: object): boolean {
  const { status } = pod as { status?: { conditions?: readonly { type: string; status: string }[] } };
  return status?.conditions?.some((each) => each.type === "Ready" && each.status === "True") ?? false;
}

function podFor(name: string, node: string): object {
  const annotations = {
    "vm.cocoonstack.io/name": `vk-${name}`,
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
