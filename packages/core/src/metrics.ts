/** Prometheus metrics: one registry per program, handed down, never a global. */
import { Registry, collectDefaultMetrics } from "prom-client";
import { buildInfo } from "./version.ts";
import { Gauge } from "prom-client";

export { Counter, Gauge, Histogram, Registry } from "prom-client";

/**
 * The library samples the event loop a hundred times a second, which is most of what an idle program does, and its
 * figures contain the time between two samples. What is left is measured when somebody asks.
 */
const hardlyEverMs = 3_600_000;
const sampled = ["min", "max", "mean", "stddev", "p50", "p90", "p99"];

/** A registry with the process metrics that every part exports, and its build as a constant gauge. */
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
