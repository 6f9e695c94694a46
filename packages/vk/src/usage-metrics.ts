/** What each machine and the host use, measured when somebody asks. */
import { statfs } from "node:fs/promises";
import { Counter, Gauge, type Abortable, type Registry } from "@cocoon/core";
import { freemem, totalmem } from "node:os";
import type { VmRuntime, VmStats } from "@cocoon/vm";
import { readMachine } from "./machine.ts";
import type { Seat } from "./provider/seat.ts";
import { nodeCpuNanos } from "./stats.ts";

export interface UsageSources extends Abortable {
  readonly runtime: VmRuntime;
  readonly seats: () => Iterable<Seat>;
  readonly rootDirectory: string;
}

const labelNames = ["vm", "pod", "namespace", "backend"] as const;
type Labels = Readonly<Record<(typeof labelNames)[number], string>>;

interface Measured {
  readonly labels: Labels;
  readonly stats: VmStats;
}

/** Scrapes follow each other by seconds: the families of one scrape share one measurement. */
const measureOnceMs = 2_000;

export function createUsageMetrics(registry: Registry, sources: UsageSources): void {
  const measure = sharedFor(measureOnceMs, () => measureAll(sources));
  for (const family of families) perVm(registry, family, measure);
  perNode(registry, sources);
}

interface Family {
  readonly name: string;
  readonly help: string;
  readonly counter: boolean;
  readonly read: (stats: VmStats) => number | undefined;
}

const families: readonly Family[] = [
  {
    name: "vm_cpu_seconds_total",
    help: "CPU time of the machine.",
    counter: true,
    read: (stats) => stats.cpu.usageNanos / 1e9,
  },
  {
    name: "vm_cpu_throttled_seconds_total",
    help: "Time in which the machine's CPU limit held it back.",
    counter: true,
    read: (stats) => (stats.cpu.throttledNanos === undefined ? undefined : stats.cpu.throttledNanos / 1e9),
  },
  {
    name: "vm_cpu_throttled_periods_total",
    help: "Periods in which the machine's CPU limit held it back.",
    counter: true,
    read: (stats) => stats.cpu.throttledPeriods,
  },
  {
    name: "vm_memory_rss_bytes",
    help: "Resident memory of the machine.",
    counter: false,
    read: (stats) => stats.memory.residentBytes,
  },
  {
    name: "vm_disk_cow_bytes",
    help: "Size of the machine's own disk layer.",
    counter: false,
    read: (stats) => stats.disk.apparentBytes,
  },
  {
    name: "vm_network_rx_bytes_total",
    help: "Bytes that the guest received.",
    counter: true,
    read: (stats) => stats.network?.receivedBytes,
  },
  {
    name: "vm_network_tx_bytes_total",
    help: "Bytes that the guest sent.",
    counter: true,
    read: (stats) => stats.network?.sentBytes,
  },
];

function perVm(registry: Registry, family: Family, measure: () => Promise<readonly Measured[]>): void {
  const settings = {
    name: `vk_cocoon_${family.name}`,
    help: family.help,
    labelNames: [...labelNames],
    registers: [],
  };
  const values = async () =>
    (await measure()).flatMap(({ labels, stats }) => {
      const value = family.read(stats);
      return value === undefined ? [] : [{ labels, value }];
    });
  const metric = family.counter
    ? new Counter({
        ...settings,
        async collect() {
          this.reset();
          for (const { labels, value } of await values()) this.inc(labels, Math.max(0, value));
        },
      })
    : new Gauge({
        ...settings,
        async collect() {
          this.reset();
          for (const { labels, value } of await values()) this.set(labels, value);
        },
      });
  registry.registerMetric(metric);
}

function perNode(registry: Registry, { rootDirectory }: UsageSources): void {
  registry.registerMetric(
    new Counter({
      name: "vk_cocoon_node_cpu_seconds_total",
      help: "CPU time of the host.",
      registers: [],
      async collect() {
        this.reset();
        this.inc((await nodeCpuNanos()) / 1e9);
      },
    }),
  );
  for (const { name, help, read } of nodeGauges(rootDirectory))
    registry.registerMetric(
      new Gauge({
        name: `vk_cocoon_${name}`,
        help,
        registers: [],
        async collect() {
          this.set(await read());
        },
      }),
    );
}

interface NodeGauge {
  readonly name: string;
  readonly help: string;
  readonly read: () => Promise<number>;
}

function nodeGauges(rootDirectory: string): readonly NodeGauge[] {
  return [
    {
      name: "node_memory_used_bytes",
      help: "Memory of the host in use.",
      read: () => Promise.resolve(totalmem() - freemem()),
    },
    {
      name: "node_storage_available_bytes",
      help: "Storage that is free where VMs live.",
      read: async () => {
        const { bavail, bsize } = await statfs(rootDirectory);
        return bavail * bsize;
      },
    },
    {
      name: "node_storage_total_bytes",
      help: "Storage where VMs live.",
      read: async () => {
        const { blocks, bsize } = await statfs(rootDirectory);
        return blocks * bsize;
      },
    },
  ];
}

async function measureAll({ runtime, seats, signal }: UsageSources): Promise<readonly Measured[]> {
  const measured = await Promise.all([...seats()].map((seat) => measureOne(runtime, seat, signal)));
  return measured.filter((each) => each !== undefined);
}

/** A machine that just went has no numbers: it is left out. */
async function measureOne(
  runtime: VmRuntime,
  seat: Seat,
  signal: AbortSignal,
): Promise<Measured | undefined> {
  const { showing, key } = seat;
  if (showing?.kind !== "live" || showing.vmId === "") return undefined;
  const { vmName, backend } = readMachine(seat.writer.pod).vm;
  try {
    const stats = await runtime.stats(showing.vmId, { signal });
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
