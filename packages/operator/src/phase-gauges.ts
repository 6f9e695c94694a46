/** How many sets and hibernations stand where, counted from the caches when the metrics are scraped. */
import { hibernationPhases, setPhases } from "@cocoon/contract";
import { Gauge, type Registry } from "@cocoon/core";
import type { CustomObject } from "./kinds.ts";

interface Source {
  list(): Iterable<CustomObject>;
}

export interface PhaseSources {
  readonly sets: Source;
  readonly hibernations: Source;
}

/** Until it is disposed: only the replica that leads has the caches. */
export function exportPhaseGauges(registry: Registry, { sets, hibernations }: PhaseSources): Disposable {
  const gauges: readonly PhaseGauge[] = [
    { name: "cocoon_operator_cocoonsets", help: "CocoonSets by phase.", phases: setPhases, source: sets },
    {
      name: "cocoon_operator_cocoonhibernations",
      help: "CocoonHibernations by phase.",
      phases: hibernationPhases,
      source: hibernations,
    },
  ];
  for (const gauge of gauges) exportGauge(registry, gauge);
  return {
    [Symbol.dispose]: () => {
      for (const { name } of gauges) registry.removeSingleMetric(name);
    },
  };
}

interface PhaseGauge {
  readonly name: string;
  readonly help: string;
  readonly phases: readonly string[];
  readonly source: Source;
}

/** Every phase is always there, so that an alert on one of them never finds nothing. */
function exportGauge(registry: Registry, { name, help, phases, source }: PhaseGauge): void {
  const gauge = new Gauge({
    name,
    help,
    labelNames: ["phase"],
    registers: [registry],
    collect: () => {
      const counts = new Map(phases.map((phase) => [phase, 0]));
      for (const object of source.list()) {
        const phase = readPhase(object, phases);
        counts.set(phase, (counts.get(phase) ?? 0) + 1);
      }
      for (const [phase, count] of counts) gauge.set({ phase }, count);
    },
  });
}

/** An object without a status was not reconciled yet; an unknown phase does not become a label. */
function readPhase({ status }: CustomObject, phases: readonly string[]): string {
  const phase = (status as { phase?: unknown } | undefined)?.phase;
  return typeof phase === "string" && phases.includes(phase) ? phase : "Pending";
}
