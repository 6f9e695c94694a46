/** What each machine uses, from the newest metrics of the nodes; live streams hear of every change. */
import type { UsageRow } from "../shared/rows.ts";
import { readSamples } from "./parse-metrics.ts";

const metric = {
  memory: "vk_cocoon_vm_memory_rss_bytes",
  privateMemory: "vk_cocoon_vm_memory_private_bytes",
  disk: "vk_cocoon_vm_disk_cow_bytes",
  received: "vk_cocoon_vm_network_rx_bytes_total",
  sent: "vk_cocoon_vm_network_tx_bytes_total",
} as const;
const names: ReadonlySet<string> = new Set(Object.values(metric));
/** Clocks and neighbours talk a little in any network; between two measurements less than this is no traffic. */
const quietBytes = 4 * 1024;

interface Known {
  readonly part: string;
  readonly row: UsageRow;
  readonly carriedBytes: number;
}

export type UsageListener = (changed: readonly UsageRow[], gone: readonly UsageRow[]) => void;

export class MachineUsage {
  readonly #known = new Map<string, Known>();
  readonly #listeners = new Set<UsageListener>();

  rows(): UsageRow[] {
    return [...this.#known.values()].map(({ row }) => row);
  }

  subscribe(listener: UsageListener): Disposable {
    this.#listeners.add(listener);
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }

  /** All that one part says about machines; those that it no longer names are gone from it. */
  update(part: string, text: string, time: Date): void {
    const values = groupByMachine(text);
    const changed: UsageRow[] = [];
    for (const [key, value] of values) {
      const before = this.#known.get(key);
      const next = readKnown({ part, key, value, before, time });
      this.#known.set(key, next);
      if (JSON.stringify(before?.row) !== JSON.stringify(next.row)) changed.push(next.row);
    }
    const gone: UsageRow[] = [];
    for (const [key, known] of this.#known)
      if (known.part === part && !values.has(key)) {
        gone.push(known.row);
        this.#known.delete(key);
      }
    if (changed.length > 0 || gone.length > 0)
      for (const listener of this.#listeners) listener(changed, gone);
  }
}

function groupByMachine(text: string): Map<string, Map<string, number>> {
  const machines = new Map<string, Map<string, number>>();
  for (const { name, labels, value } of readSamples(text, names)) {
    const { namespace = "", pod = "" } = labels;
    if (namespace === "" || pod === "") continue;
    const key = `${namespace}/${pod}`;
    const values = machines.get(key) ?? new Map<string, number>();
    machines.set(key, values.set(name, value));
  }
  return machines;
}

interface Reading {
  readonly part: string;
  readonly key: string;
  readonly value: ReadonlyMap<string, number>;
  readonly before: Known | undefined;
  readonly time: Date;
}

function readKnown({ part, key, value, before, time }: Reading): Known {
  const [namespace = "", name = ""] = key.split("/");
  const carriedBytes = (value.get(metric.received) ?? 0) + (value.get(metric.sent) ?? 0);
  const isQuiet = before === undefined || Math.abs(carriedBytes - before.carriedBytes) < quietBytes;
  return {
    part,
    carriedBytes,
    row: {
      kind: "usage",
      namespace,
      name,
      memoryBytes: value.get(metric.memory) ?? 0,
      privateBytes: value.get(metric.privateMemory) ?? value.get(metric.memory) ?? 0,
      diskBytes: value.get(metric.disk) ?? 0,
      trafficAt: isQuiet ? (before?.row.trafficAt ?? "") : time.toISOString(),
    },
  };
}
