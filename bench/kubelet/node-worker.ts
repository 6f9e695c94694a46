/**
 * A vk-cocoon in a process of its own, with the fake runtime: what it costs is then the kubelet's cost. Its parent
 * asks for numbers by messages.
 *
 *   node node-worker.ts KUBECONFIG NODE DIRECTORY PKI
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { issueCertificate } from "@cocoon/controlplane";
import { keepHeapSmall, silentLogger } from "@cocoon/core";
import { openKubeClient, type KubeClient, type KubeConnection } from "@cocoon/kube";
import { startVk } from "@cocoon/vk";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import type { WorkerRequest, WorkerReply } from "./messages.ts";

keepHeapSmall(); // as every program does
const [kubeconfig = "", node = "", directory = "", pki = ""] = process.argv.slice(2);
const { signal } = new AbortController();
const host = new FakeHost({ directory: join(directory, "snapshots"), images: ["demo"] });

/** Calls by what they are; events are not the pods' own. */
const calls = new Map<string, number>();
/** When the API server had taken a pod's newest status. */
const statusAt = new Map<string, number>();
const readyPods = new Set<string>();
let firstStatusAt = Infinity;

interface PodStatus {
  readonly conditions?: readonly { readonly type: string; readonly status: string }[];
}

function noteStatus(pod: string, status: PodStatus | undefined): void {
  statusAt.set(pod, performance.now());
  firstStatusAt = Math.min(firstStatusAt, performance.now());
  const ready = status?.conditions?.find((each) => each.type === "Ready")?.status;
  if (ready === "True") readyPods.add(pod);
}

function counting<T extends KubeClient & KubeConnection>(client: T): T {
  return new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      const method = value.bind(target) as (...args: unknown[]) => unknown;
      if (name !== "patch" && name !== "create" && name !== "delete" && name !== "get") return method;
      return async (...args: unknown[]) => {
        const [type, request, options] = args as [
          { plural?: string },
          { key?: { name?: string }; patch?: { body?: { status?: PodStatus } } },
          { subresource?: string }?,
        ];
        const what = `${name} ${type.plural ?? "?"}${options?.subresource ? `/${options.subresource}` : ""}`;
        calls.set(what, (calls.get(what) ?? 0) + 1);
        const result = await method(...args);
        if (what === "patch pods/status") noteStatus(request.key?.name ?? "", request.patch?.body?.status);
        return result;
      };
    },
  });
}

const [certificate, key] = await Promise.all([
  readFile(`${pki}/ca.crt`, "utf8"),
  readFile(`${pki}/ca.key`, "utf8"),
]);
const serving = await issueCertificate(
  { certificate, key },
  { commonName: node, usage: "server", hosts: ["127.0.0.1"] },
);
const client = counting(await openKubeClient({ kubeconfig, signal }));
await startVk({
  client,
  runtime: new FakeRuntime(host),
  signal,
  log: silentLogger,
  orphanPolicy: "alert",
  api: { host: "127.0.0.1", port: 0, tls: { cert: serving.certificate, key: serving.key, ca: certificate } },
  node: {
    name: node,
    ip: "127.0.0.1",
    pool: "bench",
    providerId: "",
    cpuClass: "",
    rootDirectory: directory,
    reservePercent: 0,
    pods: 5_000,
    cpu: "10000",
    memory: "10000Gi",
    storage: "10000Gi",
    hugepages: undefined,
  },
  restartPauseMs: 0,
  // Published once per machine and not part of what is measured.
  idle: { sampleMs: 0, cpuPercent: 2 },
});

/** From the death of a VM until the API server has the restart in the pod's status. */
async function restart(vmName: string, pod: string): Promise<number> {
  statusAt.delete(pod);
  const began = performance.now();
  host.kill(vmName);
  while (!statusAt.has(pod)) await new Promise((resolve) => setTimeout(resolve, 1));
  return (statusAt.get(pod) ?? began) - began;
}

async function answer(request: WorkerRequest): Promise<WorkerReply> {
  if (request.kind === "restart") return { tookMs: await restart(request.vmName, request.pod) };
  if (request.kind === "ready")
    return { readyPods: readyPods.size, writingMs: Math.max(0, ...statusAt.values()) - firstStatusAt };
  if (request.kind === "calls") return { calls: Object.fromEntries(calls) };
  const { user, system } = process.cpuUsage();
  return { rssBytes: process.memoryUsage().rss, cpuMicros: user + system };
}

process.on(
  "message",
  (request: WorkerRequest) => void answer(request).then((reply) => process.send?.(reply)),
);
process.on("disconnect", () => process.exit(0));
process.send?.({ ready: true });
