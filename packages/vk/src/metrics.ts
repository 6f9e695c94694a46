/** The documented metrics of vk-cocoon. Names are a contract: dashboards of others read them. */
import { Counter, Gauge, Histogram, type Registry } from "@cocoon/core";

type Rows = Readonly<Record<string, { readonly help: string; readonly labels?: readonly string[] }>>;
type Label<Row> = Row extends { readonly labels: readonly (infer L extends string)[] } ? L : never;

const counters = {
  pod_lifecycle_total: {
    help: "What was done to pods, and how it ended.",
    labels: ["op", "result", "reason"],
  },
  snapshot_pull_total: { help: "Snapshots made local.", labels: ["result"] },
  snapshot_save_total: { help: "Snapshots saved.", labels: ["result"] },
  snapshot_push_total: { help: "Snapshots pushed.", labels: ["result"] },
  snapshot_verify_total: { help: "Pushed snapshots read back from the registry.", labels: ["result"] },
  snapshot_bytes_total: {
    help: "Bytes of snapshots, over the network or reused.",
    labels: ["direction", "how"],
  },
  snapshot_damaged_total: { help: "Times that a snapshot was found incomplete in the registry." },
  orphan_vm_total: { help: "VMs found at start that no pod claims." },
  reconcile_adopt_by_name_total: { help: "VMs adopted by their name at start." },
  vm_inspect_transient_fail_total: { help: "Readiness checks to which the VM runtime gave no answer." },
  pod_evict_failure_total: { help: "Failed machines whose pod status could not be written." },
  hibernate_total: { help: "Steps of hibernating.", labels: ["phase", "result"] },
  hibernate_evidence_total: {
    help: "Whether a hibernated machine may be restored here: proven, unavailable or failed.",
    labels: ["verdict"],
  },
  wake_total: { help: "Machines restored from their hibernation.", labels: ["result"] },
  wake_ip_wait_total: {
    help: "Woken machines that had an address in time (ok), or not (timeout).",
    labels: ["result"],
  },
  wake_renew_nudge_total: { help: "Windows guests asked to renew their lease." },
  postclone_total: {
    help: "Cloned guests without agent that were given an identity, by command (exec) or serial console (sac).",
    labels: ["kind", "result"],
  },
  clone_from_dir_total: { help: "Machines cloned from a directory of the host." },
  startup_resume_total: { help: "Work of an earlier process that was continued.", labels: ["op"] },
  local_removed_total: { help: "What garbage collection removed from this node's disk.", labels: ["kind"] },
  foreign_snapshot_total: {
    help: "Hibernated snapshots kept under a machine that was not restored from them.",
  },
} as const satisfies Rows;

const gauges = {
  vm_table_size: { help: "Machines that run or are hibernated here." },
  local_snapshot_bytes: { help: "Disk that snapshots take on this node." },
  push_left_bytes: { help: "Bytes of machines that are being pushed and were not read or sent yet." },
  pull_left_bytes: { help: "Bytes of machines that are being pulled and were not fetched or written yet." },
  loading_left_bytes: { help: "Bytes of running machines that are still coming from the registry." },
  chunk_store_bytes: { help: "Disk that content of packed snapshots takes on this node." },
} as const satisfies Rows;

const transferBuckets = [1, 5, 10, 30, 60, 120, 300];

const histograms = {
  vm_boot_duration_seconds: {
    help: "From the request to a running VM.",
    labels: ["mode", "backend"],
    buckets: [0.5, 1, 2, 5, 10, 30, 60, 120, 300],
  },
  snapshot_save_duration_seconds: { help: "Saving a VM.", buckets: [1, 2, 5, 10, 30, 60, 120] },
  snapshot_push_duration_seconds: { help: "Pushing a snapshot.", buckets: transferBuckets },
  snapshot_pull_duration_seconds: { help: "Pulling a snapshot.", buckets: transferBuckets },
  probe_duration_seconds: {
    help: "One readiness check.",
    buckets: [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5],
  },
  postclone_retry_attempts: {
    help: "Attempts until a cloned guest had its identity.",
    labels: ["result"],
    buckets: [1, 2, 5, 10, 20, 60],
  },
} as const satisfies Rows & Readonly<Record<string, { readonly buckets: readonly number[] }>>;

/** By name, without the prefix. */
export type VkMetrics = {
  readonly [K in keyof typeof counters]: Counter<Label<(typeof counters)[K]>>;
} & { readonly [K in keyof typeof gauges]: Gauge } & {
  readonly [K in keyof typeof histograms]: Histogram<Label<(typeof histograms)[K]>>;
};

/** One part of a gauge that several transfers share; it is gone when the part is disposed of. */
export function openShare(gauge: Gauge): Disposable & { set(value: number): void } {
  let mine = 0;
  const set = (value: number) => {
    gauge.inc(value - mine);
    mine = value;
  };
  return { set, [Symbol.dispose]: () => set(0) };
}

export function createVkMetrics(registry: Registry): VkMetrics {
  const create = <Row extends Rows[string], M>(
    rows: Readonly<Record<string, Row>>,
    make: (
      settings: { name: string; help: string; labelNames: string[]; registers: Registry[] },
      row: Row,
    ) => M,
  ) =>
    Object.entries(rows).map(([name, row]) => {
      const labelNames = [...(row.labels ?? [])];
      return [
        name,
        make({ name: `vk_cocoon_${name}`, help: row.help, labelNames, registers: [registry] }, row),
      ];
    });
  return Object.fromEntries([
    ...create(counters, (settings) => new Counter(settings)),
    ...create(gauges, (settings) => new Gauge(settings)),
    ...create(histograms, (settings, { buckets }) => new Histogram({ ...settings, buckets: [...buckets] })),
  ]) as VkMetrics;
}
