/** The registry. */
import { quantile, rate, formatShare, type Dashboard } from "./panel.ts";

export const registry: Dashboard = {
  file: "registry",
  title: "Cocoon: registry",
  panels: [
    {
      title: "Requests",
      unit: "reqps",
      series: { "{{route}} {{code}}": rate("epoch_http_requests_total", "route, code") },
    },
    {
      title: "Share of failures",
      unit: "percentunit",
      series: { failed: formatShare("epoch_http_requests_total", 'code=~"5.."') },
    },
    {
      title: "Time, 99th percentile",
      unit: "s",
      series: {
        "{{route}} {{method}}": quantile(0.99, "epoch_http_request_duration_seconds", "route, method"),
      },
    },
    { title: "Blobs", unit: "Bps", series: { "{{direction}}": rate("epoch_blob_bytes_total", "direction") } },
    { title: "Open uploads", unit: "short", series: { open: "sum(epoch_uploads_open)" } },
    {
      title: "Garbage collection, per day",
      unit: "short",
      series: {
        "runs {{outcome}}": "sum by (outcome) (increase(epoch_gc_runs_total[1d]))",
        "removed {{what}}": 'sum by (what) (increase(epoch_gc_removed_total{what!="bytes"}[1d]))',
      },
    },
    {
      title: "Given back, per day",
      unit: "bytes",
      series: { bytes: 'sum(increase(epoch_gc_removed_total{what="bytes"}[1d]))' },
    },
  ],
};
