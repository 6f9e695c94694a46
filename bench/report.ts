/** What every benchmark prints last: one JSON object with figures and targets; and small statistics. */
import { cpus, loadavg, release } from "node:os";

export interface Target {
  readonly name: string;
  readonly value: number;
  /** Such as `<= 250` or `>= 1.2`. */
  readonly want: string;
}

export interface Spread {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function computeSpread(values: readonly number[]): Spread {
  const sorted = values.toSorted((left, right) => left - right);
  const middle = sorted[Math.floor((sorted.length - 1) / 2)] ?? Number.NaN;
  const next = sorted[Math.ceil((sorted.length - 1) / 2)] ?? Number.NaN;
  return { median: (middle + next) / 2, low: sorted[0] ?? Number.NaN, high: sorted.at(-1) ?? Number.NaN };
}

export function computePercentiles(values: readonly number[]): {
  readonly p50: number;
  readonly p99: number;
} {
  const sorted = values.toSorted((left, right) => left - right);
  return {
    p50: computeSpread(sorted).median,
    p99: sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN,
  };
}

export function isMet({ value, want }: Target): boolean {
  const limit = Number(want.replace(/^[<>]=?\s*/, ""));
  if (want.startsWith("<=")) return value <= limit;
  if (want.startsWith(">=")) return value >= limit;
  return want.startsWith("<") ? value < limit : value > limit;
}

export interface Report {
  readonly bench: string;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly figures: Readonly<Record<string, unknown>>;
  readonly targets: readonly Target[];
}

export function printReport({ bench, env, figures, targets }: Report): void {
  const machine = {
    node: process.version,
    cpus: cpus().length,
    cpu: cpus()[0]?.model,
    kernel: release(),
    load: loadavg()[0],
    ...env,
  };
  console.log(
    JSON.stringify({
      bench,
      env: machine,
      figures,
      targets: targets.map((target) => ({ ...target, met: isMet(target) })),
    }),
  );
}
