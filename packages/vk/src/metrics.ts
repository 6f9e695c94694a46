/** The documented metrics of vk-cocoon. Names are a contract: dashboards of others read them. */
import { Counter, Gauge, Histogram, type Registry } from "@cocoon/core";

export interface VkMetrics {
  readonly lifecycle: Counter<"op" | "result" | "reason">;
  readonly pull: Counter<"result">;
  readonly save: Counter<"result">;
  readonly push: Counter<"result">;
  readonly tableSize: Gauge;
  readonly orphans: Counter;
  readonly adoptedByName: Counter;
  readonly inspectFailures: Counter;
  readonly evictFailures: Counter;
  readonly bootSeconds: Histogram<"mode" | "backend">;
  readonly saveSeconds: Histogram;
  readonly pushSeconds: Histogram;
  readonly pullSeconds: Histogram;
  readonly probeSeconds: Histogram;
  readonly hibernate: Counter<"phase" | "result">;
  readonly wake: Counter<"result">;
}

const transferBuckets = [1, 5, 10, 30, 60, 120, 300];

export function createVkMetrics(registry: Registry): VkMetrics {
  const registers = [registry];
  const name = (rest: string) => `vk_cocoon_${rest}`;
  const counter = <L extends string>(rest: string, help: string, labelNames: L[]) =>
    new Counter<L>({ name: name(rest), help, labelNames, registers });
  const histogram = <L extends string>(
    rest: string,
    help: string,
    more: { labelNames?: L[]; buckets: number[] },
  ) => new Histogram<L>({ name: name(rest), help, registers, labelNames: [], ...more });
  return {
    lifecycle: counter("pod_lifecycle_total", "What was done to pods, and how it ended.", [
      "op",
      "result",
      "reason",
    ]),
    pull: counter("snapshot_pull_total", "Snapshots made local.", ["result"]),
    save: counter("snapshot_save_total", "Snapshots saved.", ["result"]),
    push: counter("snapshot_push_total", "Snapshots pushed.", ["result"]),
    tableSize: new Gauge({
      name: name("vm_table_size"),
      help: "Machines that run or sleep here.",
      registers,
    }),
    orphans: counter("orphan_vm_total", "VMs found at start that no pod claims.", []),
    adoptedByName: counter("reconcile_adopt_by_name_total", "VMs adopted by their name at start.", []),
    inspectFailures: counter("vm_inspect_transient_fail_total", "VMs that could not be asked for.", []),
    evictFailures: counter("pod_evict_failure_total", "Pods whose failure could not be told.", []),
    bootSeconds: histogram("vm_boot_duration_seconds", "From the order to a running VM.", {
      labelNames: ["mode", "backend"],
      buckets: [0.5, 1, 2, 5, 10, 30, 60, 120, 300],
    }),
    saveSeconds: histogram("snapshot_save_duration_seconds", "Saving a VM.", {
      buckets: [1, 2, 5, 10, 30, 60, 120],
    }),
    pushSeconds: histogram("snapshot_push_duration_seconds", "Pushing a snapshot.", {
      buckets: transferBuckets,
    }),
    pullSeconds: histogram("snapshot_pull_duration_seconds", "Pulling a snapshot.", {
      buckets: transferBuckets,
    }),
    probeSeconds: histogram("probe_duration_seconds", "One readiness check.", {
      buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
    }),
    hibernate: counter("hibernate_total", "Steps of falling asleep.", ["phase", "result"]),
    wake: counter("wake_total", "Machines restored from their sleep.", ["result"]),
  };
}
