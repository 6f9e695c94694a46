/** VM hosts and the machines on them. */
import { quantile, rate, type Dashboard } from "./panel.ts";

export const machines: Dashboard = {
  file: "machines",
  title: "Cocoon: machines",
  panels: [
    {
      title: "Machines by host",
      unit: "short",
      series: { "{{instance}}": "sum by (instance) (vk_cocoon_vm_table_size)" },
    },
    {
      title: "Pod operations",
      unit: "ops",
      series: { "{{op}} {{result}}": rate("vk_cocoon_pod_lifecycle_total", "op, result") },
    },
    {
      title: "Boot, from the order to a running VM",
      unit: "s",
      series: {
        "p50 {{mode}}": quantile(0.5, "vk_cocoon_vm_boot_duration_seconds", "mode"),
        "p99 {{mode}}": quantile(0.99, "vk_cocoon_vm_boot_duration_seconds", "mode"),
      },
    },
    {
      title: "Falling asleep, by step",
      unit: "ops",
      series: { "{{phase}} {{result}}": rate("vk_cocoon_hibernate_total", "phase, result") },
    },
    { title: "Waking", unit: "ops", series: { "{{result}}": rate("vk_cocoon_wake_total", "result") } },
    {
      title: "Snapshots: saved, pushed, pulled",
      unit: "ops",
      series: {
        "saved {{result}}": rate("vk_cocoon_snapshot_save_total", "result"),
        "pushed {{result}}": rate("vk_cocoon_snapshot_push_total", "result"),
        "pulled {{result}}": rate("vk_cocoon_snapshot_pull_total", "result"),
      },
    },
    {
      title: "Time of snapshots, 90th percentile",
      unit: "s",
      series: {
        save: quantile(0.9, "vk_cocoon_snapshot_save_duration_seconds", ""),
        push: quantile(0.9, "vk_cocoon_snapshot_push_duration_seconds", ""),
        pull: quantile(0.9, "vk_cocoon_snapshot_pull_duration_seconds", ""),
      },
    },
    {
      title: "What should not happen",
      unit: "short",
      series: {
        "orphans {{instance}}": "sum by (instance) (increase(vk_cocoon_orphan_vm_total[1h]))",
        "could not ask {{instance}}":
          "sum by (instance) (increase(vk_cocoon_vm_inspect_transient_fail_total[1h]))",
        "failure not told {{instance}}":
          "sum by (instance) (increase(vk_cocoon_pod_evict_failure_total[1h]))",
      },
    },
    {
      title: "CPU, ten busiest machines",
      unit: "short",
      series: { "{{vm}}": "topk(10, rate(vk_cocoon_vm_cpu_seconds_total[$__rate_interval]))" },
    },
    {
      title: "Memory, ten largest machines",
      unit: "bytes",
      series: { "{{vm}}": "topk(10, vk_cocoon_vm_memory_rss_bytes)" },
    },
    {
      title: "Own disk layer, ten largest",
      unit: "bytes",
      series: { "{{vm}}": "topk(10, vk_cocoon_vm_disk_cow_bytes)" },
    },
    {
      title: "Network, ten busiest",
      unit: "Bps",
      series: {
        "in {{vm}}": "topk(10, rate(vk_cocoon_vm_network_rx_bytes_total[$__rate_interval]))",
        "out {{vm}}": "topk(10, rate(vk_cocoon_vm_network_tx_bytes_total[$__rate_interval]))",
      },
    },
    {
      title: "Held back by their CPU limit",
      unit: "short",
      series: { "{{vm}}": "topk(10, rate(vk_cocoon_vm_cpu_throttled_seconds_total[$__rate_interval]))" },
    },
    {
      title: "Storage left on hosts",
      unit: "percentunit",
      series: {
        "{{instance}}": "vk_cocoon_node_storage_available_bytes / vk_cocoon_node_storage_total_bytes",
      },
    },
    {
      title: "Memory in use on hosts",
      unit: "bytes",
      series: { "{{instance}}": "vk_cocoon_node_memory_used_bytes" },
    },
    {
      title: "Readiness checks, 99th percentile",
      unit: "s",
      series: { "{{instance}}": quantile(0.99, "vk_cocoon_probe_duration_seconds", "instance") },
    },
  ],
};
