/** The documented metrics of cocoon-webhook, and ours. Names are a contract: dashboards of others read them. */
import { Counter, Gauge, type Registry } from "@cocoon/core";

export interface WebhookMetrics {
  readonly admission: Counter<"handler" | "result" | "reason">;
  readonly reservations: Counter<"pool">;
  readonly releases: Counter<"pool">;
  readonly storeWrites: Counter;
  readonly duplicates: Gauge;
}

export function createWebhookMetrics(registry: Registry, held: () => number): WebhookMetrics {
  const metric = (rest: string, help: string) => ({
    name: `cocoon_webhook_${rest}`,
    help,
    registers: [registry],
  });
  const entries: Gauge = new Gauge({
    ...metric("affinity_entries", "Reservations that are held."),
    collect: () => entries.set(held()),
  });
  return {
    admission: new Counter({
      ...metric("admission_total", "Admission requests by handler, result and why they were passed over."),
      labelNames: ["handler", "result", "reason"],
    }),
    reservations: new Counter({
      ...metric("affinity_reservations_total", "Reservations granted."),
      labelNames: ["pool"],
    }),
    releases: new Counter({
      ...metric("affinity_releases_total", "Reservations released."),
      labelNames: ["pool"],
    }),
    storeWrites: new Counter(
      metric(
        "store_writes_total",
        "Writes to the ConfigMaps that hold the reservations; one may carry many.",
      ),
    ),
    duplicates: new Gauge(
      metric(
        "duplicate_vm_names",
        "Machine names that more than one pod carries; anything but 0 is a fault.",
      ),
    ),
  };
}
