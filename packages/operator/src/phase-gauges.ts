/** How many sets and hibernations stand where, counted from the caches when somebody asks for the metrics. */
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

export function exportPhaseGauges(registry: Registry, { sets, hibernations }: PhaseSources): void {
  exportGauge(registry, {
    name: "cocoonsets",
    help: "CocoonSets by phase.",
    phases: setPhases,
    source: sets,
  });
  exportGauge(registry, {
    name: "cocoonhibernations",
    help: "CocoonHibernations by phase.",
    phases: hibernationPhases,
    source: hibernations,
  });
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
    name: `cocoon_operator_${name}`,
    help,
    labelNames: ["phase"],
    registers: [registry],
    collect: () => {
      const counts = new Map(phases.map((phase) => [phase, 0]));
      for (const object of source.list()) {
        const phase = phaseOf(object, phases);
        counts.set(phase, (counts.get(phase) ?? 0) + 1);
      }
      for (const [phase, count] of counts) gauge.set({ phase }, count);
    },
  });
}

/** An object without a status has not been looked at yet; a phase that nobody knows is not made a label of. */
function phaseOf({ status }: CustomObject, phases: readonly string[]): string {
  const phase = (status as { phase?: unknown } | undefined)?.phase;
  return typeof phase === "string" && phases.includes(phase) ? phase : "Pending";
}
