/** The documented metrics of cocoon-webhook, and ours. Names are a contract: dashboards of others read them. */
import { MetricFactory, type Counter, type Gauge, type Registry } from "@cocoon/core";

export interface WebhookMetrics {
  readonly admission: Counter<"handler" | "result" | "reason">;
  readonly reservations: Counter<"pool">;
  readonly releases: Counter<"pool">;
  readonly storeWrites: Counter<never>;
  readonly duplicates: Gauge<never>;
}

export function createWebhookMetrics(registry: Registry, held: () => number): WebhookMetrics {
  const metrics = new MetricFactory(registry, "cocoon_webhook_");
  metrics.gauge("affinity_entries", "Reservations that are held.", { collect: (gauge) => gauge.set(held()) });
  return {
    admission: metrics.counter(
      "admission_total",
      "Admission requests by handler, result and why they were passed over.",
      ["handler", "result", "reason"],
    ),
    reservations: metrics.counter("affinity_reservations_total", "Reservations granted.", ["pool"]),
    releases: metrics.counter("affinity_releases_total", "Reservations released.", ["pool"]),
    storeWrites: metrics.counter(
      "store_writes_total",
      "Writes to the ConfigMaps that hold the reservations; one may carry many.",
    ),
    duplicates: metrics.gauge(
      "duplicate_vm_names",
      "Machine names that more than one pod carries; anything but 0 is a fault.",
    ),
  };
}
