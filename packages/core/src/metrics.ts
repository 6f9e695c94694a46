/** Prometheus metrics: one registry per program, handed down, never a global. */
import { Registry, collectDefaultMetrics } from "prom-client";
import { buildInfo } from "./version.ts";
import { Gauge } from "prom-client";

export { Counter, Gauge, Histogram, Registry } from "prom-client";

/** The library samples the event loop a hundred times a second, most of what an idle program does. */
const hardlyEverMs = 3_600_000;
const sampled = ["min", "max", "mean", "stddev", "p50", "p90", "p99"];

/** The metric of that name in the registry, made when it is missing: several parts may share one. */
export function openMetric<M, O extends { readonly name: string }>(
  registry: Registry,
  type: new (options: O & { registers: Registry[] }) => M,
  options: O,
): M {
  const known: unknown = registry.getSingleMetric(options.name);
  return known instanceof type ? known : new type({ ...options, registers: [registry] });
}

export function createRegistry(program: string): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: hardlyEverMs });
  for (const name of sampled) registry.removeSingleMetric(`nodejs_eventloop_lag_${name}_seconds`);
  const info = buildInfo();
  new Gauge({
    name: "cocoon_build_info",
    help: "Always 1; the labels say which build runs.",
    labelNames: ["program", "version", "revision"],
    registers: [registry],
  }).set({ program, version: info.version, revision: info.revision }, 1);
  return registry;
}
