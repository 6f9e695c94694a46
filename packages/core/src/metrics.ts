/** Prometheus metrics: one registry per program, handed down, never a global. */
import { Registry, collectDefaultMetrics } from "prom-client";
import { buildInfo } from "./version.ts";
import { Gauge } from "prom-client";

export { Counter, Gauge, Histogram, Registry } from "prom-client";

/** A registry with the process metrics that every part exports, and its build as a constant gauge. */
export function createRegistry(program: string): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const info = buildInfo();
  new Gauge({
    name: "cocoon_build_info",
    help: "Always 1; the labels say which build runs.",
    labelNames: ["program", "version", "revision"],
    registers: [registry],
  }).set({ program, version: info.version, revision: info.revision }, 1);
  return registry;
}
