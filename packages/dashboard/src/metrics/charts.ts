/** The metrics that the health page draws. A part that does not have one has no such chart. */
export interface Chart {
  readonly metric: string;
  readonly title: string;
  readonly unit: "bytes" | "per second" | "count" | "cores" | "days";
  /** A counter: drawn as its increase per second. */
  readonly rate?: boolean;
}

export const charts: readonly Chart[] = [
  { metric: "process_resident_memory_bytes", title: "Memory of the part", unit: "bytes" },
  { metric: "process_cpu_seconds_total", title: "CPU of the part", unit: "cores", rate: true },
  { metric: "vk_cocoon_vm_table_size", title: "Machines, running or hibernated", unit: "count" },
  { metric: "vk_cocoon_vm_memory_rss_bytes", title: "Memory of machines", unit: "bytes" },
  { metric: "vk_cocoon_vm_cpu_seconds_total", title: "CPU of machines", unit: "cores", rate: true },
  { metric: "vk_cocoon_node_memory_used_bytes", title: "Memory of the host in use", unit: "bytes" },
  { metric: "vk_cocoon_node_storage_available_bytes", title: "Free storage", unit: "bytes" },
  { metric: "vk_cocoon_snapshot_bytes_total", title: "Snapshot bytes", unit: "per second", rate: true },
  { metric: "controller_failing_objects", title: "Objects whose reconcile fails", unit: "count" },
  { metric: "controller_runtime_reconcile_total", title: "Reconciles", unit: "per second", rate: true },
  { metric: "cocoon_webhook_requests_total", title: "Admission requests", unit: "per second", rate: true },
  { metric: "serving_certificate_days_to_expiry", title: "Days until the certificate expires", unit: "days" },
];
