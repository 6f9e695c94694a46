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
  const registers = [registry];
  const name = (rest: string) => `cocoon_webhook_${rest}`;
  const entries: Gauge = new Gauge({
    name: name("affinity_entries"),
    help: "Reservations that are held.",
    registers,
    collect: () => entries.set(held()),
  });
  return {
    admission: new Counter({
      name: name("admission_total"),
      help: "Admission requests by handler, result and why they were passed over.",
      labelNames: ["handler", "result", "reason"],
      registers,
    }),
    reservations: new Counter({
      name: name("affinity_reservations_total"),
      help: "Reservations granted.",
      labelNames: ["pool"],
      registers,
    }),
    releases: new Counter({
      name: name("affinity_releases_total"),
      help: "Reservations released.",
      labelNames: ["pool"],
      registers,
    }),
    storeWrites: new Counter({
      name: name("store_writes_total"),
      help: "Writes to the ConfigMaps that hold the reservations; one may carry many.",
      registers,
    }),
    duplicates: new Gauge({
      name: name("duplicate_vm_names"),
      help: "Machine names that more than one pod carries; anything but 0 is a fault.",
      registers,
    }),
  };
}
