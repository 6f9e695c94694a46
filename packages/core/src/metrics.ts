/** Prometheus metrics: one registry per program, handed down, never a global. */
import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from "prom-client";
import { buildInfo } from "./version.ts";

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

/** Metrics of one registry whose names share a prefix. */
export class MetricFactory {
  readonly #registers: Registry[];
  readonly #prefix: string;

  constructor(registry: Registry, prefix = "") {
    this.#registers = [registry];
    this.#prefix = prefix;
  }

  counter<L extends string = never>(name: string, help: string, labels: readonly L[] = []): Counter<L> {
    return new Counter<L>(this.#describe(name, help, labels));
  }

  /** `collect` sets it when the registry is scraped. */
  gauge<L extends string = never>(
    name: string,
    help: string,
    {
      labels = [],
      collect,
    }: { readonly labels?: readonly L[]; readonly collect?: (gauge: Gauge<L>) => void } = {},
  ): Gauge<L> {
    const settings = this.#describe(name, help, labels);
    const gauge: Gauge<L> = new Gauge<L>(collect ? { ...settings, collect: () => collect(gauge) } : settings);
    return gauge;
  }

  histogram<L extends string = never>(
    name: string,
    help: string,
    { labels = [], buckets }: { readonly labels?: readonly L[]; readonly buckets?: readonly number[] },
  ): Histogram<L> {
    const settings = this.#describe(name, help, labels);
    return new Histogram<L>(buckets ? { ...settings, buckets: [...buckets] } : settings);
  }

  #describe<L extends string>(name: string, help: string, labels: readonly L[]) {
    return { name: `${this.#prefix}${name}`, help, labelNames: [...labels], registers: this.#registers };
  }
}

export function createRegistry(program: string): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: hardlyEverMs });
  for (const name of sampled) registry.removeSingleMetric(`nodejs_eventloop_lag_${name}_seconds`);
  const info = buildInfo();
  new MetricFactory(registry)
    .gauge("cocoon_build_info", "Always 1; the labels say which build runs.", {
      labels: ["program", "version", "revision"],
    })
    .set({ program, version: info.version, revision: info.revision }, 1);
  return registry;
}
