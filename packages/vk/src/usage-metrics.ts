/** What each machine and the host use, measured when metrics are scraped. */
import { statfs } from "node:fs/promises";
import { freemem, totalmem } from "node:os";
import { Counter, Gauge, type Abortable, type Registry } from "@cocoon/core";
import type { VmRuntime, VmStats } from "@cocoon/vm";
import { readPodMachine } from "./pod-machine.ts";
import type { TrackedMachine } from "./provider/tracked-machine.ts";
import { nodeCpuNanos } from "./stats.ts";

export interface UsageSources extends Abortable {
  readonly runtime: VmRuntime;
  readonly machines: () => Iterable<TrackedMachine>;
  readonly rootDirectory: string;
}

interface Sample {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A name that ends in `_total` is a counter. */
function register(
  registry: Registry,
  {
    name,
    help,
    labelNames = [],
  }: { readonly name: string; readonly help: string; readonly labelNames?: string[] },
  read: () => Promise<readonly Sample[]>,
): void {
  const settings = { name: `vk_cocoon_${name}`, help, labelNames, registers: [] };
  const metric = name.endsWith("_total")
    ? new Counter({
        ...settings,
        async collect() {
          this.reset();
          for (const { labels, value } of await read()) this.inc(labels, Math.max(0, value));
        },
      })
    : new Gauge({
        ...settings,
        async collect() {
          this.reset();
          for (const { labels, value } of await read()) this.set(labels, value);
        },
      });
  registry.registerMetric(metric);
}

const perVm: readonly (readonly [
  name: string,
  help: string,
  read: (stats: VmStats) => number | undefined,
])[] = [
  ["vm_cpu_seconds_total", "CPU time of the machine.", ({ cpu }) => cpu.usageNanos / 1e9],
  [
    "vm_cpu_throttled_seconds_total",
    "Time in which the machine's CPU limit held it back.",
    ({ cpu }) => (cpu.throttledNanos === undefined ? undefined : cpu.throttledNanos / 1e9),
  ],
  [
    "vm_cpu_throttled_periods_total",
    "Periods in which the machine's CPU limit held it back.",
    ({ cpu }) => cpu.throttledPeriods,
  ],
  ["vm_memory_rss_bytes", "Resident memory of the machine.", ({ memory }) => memory.residentBytes],
  [
    "vm_memory_private_bytes",
    "Memory that would be free again if the machine went; the rest of its resident memory is shared.",
    ({ memory }) => memory.privateBytes,
  ],
  ["vm_disk_cow_bytes", "Size of the machine's own disk layer.", ({ disk }) => disk.apparentBytes],
  ["vm_network_rx_bytes_total", "Bytes that the guest received.", ({ network }) => network?.receivedBytes],
  ["vm_network_tx_bytes_total", "Bytes that the guest sent.", ({ network }) => network?.sentBytes],
];

const perNode: readonly (readonly [name: string, help: string, read: (root: string) => Promise<number>])[] = [
  ["node_cpu_seconds_total", "CPU time of the host.", async () => (await nodeCpuNanos()) / 1e9],
  ["node_memory_used_bytes", "Memory of the host in use.", () => Promise.resolve(totalmem() - freemem())],
  [
    "node_storage_available_bytes",
    "Storage that is free where VMs live.",
    (root) => statfs(root).then(({ bavail, bsize }) => bavail * bsize),
  ],
  [
    "node_storage_total_bytes",
    "Storage where VMs live.",
    (root) => statfs(root).then(({ blocks, bsize }) => blocks * bsize),
  ],
];

/** Scrapes follow each other by seconds: the families of one scrape share one measurement. */
const measureOnceMs = 2_000;

export function createUsageMetrics(registry: Registry, sources: UsageSources): void {
  const measure = sharedFor(measureOnceMs, () => measureAll(sources));
  const labelNames = ["vm", "pod", "namespace", "backend"];
  for (const [name, help, read] of perVm)
    register(registry, { name, help, labelNames }, async () =>
      (await measure()).flatMap(({ labels, stats }) => {
        const value = read(stats);
        return value === undefined ? [] : [{ labels, value }];
      }),
    );
  for (const [name, help, read] of perNode)
    register(registry, { name, help }, async () => [
      { labels: {}, value: await read(sources.rootDirectory) },
    ]);
}

interface Measured {
  readonly labels: Sample["labels"];
  readonly stats: VmStats;
}

async function measureAll({ runtime, machines, signal }: UsageSources): Promise<readonly Measured[]> {
  const measured = await Promise.all([...machines()].map((tracked) => measureOne(runtime, tracked, signal)));
  return measured.filter((each) => each !== undefined);
}

/** A machine that just went has no numbers: it is left out. */
async function measureOne(
  runtime: VmRuntime,
  { shown, key, writer }: TrackedMachine,
  signal: AbortSignal,
): Promise<Measured | undefined> {
  if (shown?.kind !== "live" || shown.vmId === "") return undefined;
  const { vmName, backend } = readPodMachine(writer.pod).vm;
  try {
    const stats = await runtime.stats(shown.vmId, { signal });
    return { stats, labels: { vm: vmName, pod: key.name, namespace: key.namespace ?? "", backend } };
  } catch {
    return undefined;
  }
}

function sharedFor<T>(ms: number, make: () => Promise<T>): () => Promise<T> {
  let current: { readonly at: number; readonly value: Promise<T> } | undefined;
  return () => {
    if (!current || performance.now() - current.at > ms) current = { at: performance.now(), value: make() };
    return current.value;
  };
}
