/** Counts what happened in a run, prints it, and writes it into docs/reliability.md. */
import { readFile, writeFile } from "node:fs/promises";
import { violationKinds } from "./check.ts";
import type { StepResult } from "./run-step.ts";
import type { Fault, Operation } from "./steps.ts";

export interface Report {
  readonly date: string;
  readonly seeds: readonly number[];
  readonly minutes: number;
  readonly histories: number;
  readonly steps: number;
  readonly operations: Readonly<Record<string, number>>;
  readonly faults: Readonly<Record<string, number>>;
  readonly violations: Readonly<Record<string, number>>;
  /** From the end of the last fault of a step until all that was requested was done and every guest answered. */
  readonly stepSeconds: Times | undefined;
  /** The same for steps whose only fault was one killed part, without an operation. */
  readonly platformSeconds: Times | undefined;
  /** From SIGKILL of a part until its readiness endpoint answers, without another fault in that time. */
  readonly partSeconds: Times | undefined;
  /** The same with other faults in that time. */
  readonly disturbedPartSeconds: Times | undefined;
  /** Parts that did not return by themselves. */
  readonly startedFromOutside: Readonly<Record<string, number>>;
}

interface Times {
  readonly count: number;
  readonly median: number;
  readonly worst: number;
}

function tally(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const name of names.toSorted()) counts[name] = (counts[name] ?? 0) + 1;
  return counts;
}

function summarize(milliseconds: readonly number[]): Times | undefined {
  const sorted = milliseconds.toSorted((left, right) => left - right);
  const middle = sorted[Math.floor(sorted.length / 2)];
  const last = sorted.at(-1);
  if (middle === undefined || last === undefined) return undefined;
  const seconds = (value: number) => Math.round(value / 100) / 10;
  return { count: sorted.length, median: seconds(middle), worst: seconds(last) };
}

function nameOperation(operation: Operation): string {
  if (operation.kind !== "scale") return operation.kind;
  return operation.replicas > 0 ? "scale up (fork)" : "scale down";
}

function nameFault(fault: Fault): string {
  if (fault.kind === "kill" || fault.kind === "pause") return `${fault.kind} ${fault.part}`;
  return fault.kind === "registry" ? `registry ${fault.fault}` : fault.kind;
}

export interface RunSummary {
  readonly seed: number;
  readonly results: readonly StepResult[];
}

export function makeReport(runs: readonly RunSummary[], minutes: number): Report {
  const results = runs.flatMap((run) => run.results);
  const recovered = results.filter(({ recoverMs }) => recoverMs !== undefined);
  const getMs = (found: readonly StepResult[]) => found.map(({ recoverMs = 0 }) => recoverMs);
  const onePart = recovered.filter(
    ({ step, faults: [fault, ...more] }) =>
      step.operations.length === 0 && fault?.kind === "kill" && more.length === 0,
  );
  const recoveries = results.flatMap((result) => result.recoveries);
  const getPartMs = (disturbed: boolean) =>
    recoveries.filter((each) => each.disturbed === disturbed).map(({ ms }) => ms);
  return {
    date: new Date().toISOString().slice(0, 10),
    seeds: runs.map(({ seed }) => seed),
    minutes: Math.round(minutes * 10) / 10,
    histories: runs.length,
    steps: results.length,
    operations: tally(results.flatMap(({ step }) => step.operations.map(nameOperation))),
    faults: tally(results.flatMap((result) => result.faults.map(nameFault))),
    violations: {
      ...Object.fromEntries(violationKinds.map((kind) => [kind, 0])),
      ...tally(results.flatMap(({ violations }) => [...new Set(violations.map(({ kind }) => kind))])),
    },
    stepSeconds: summarize(getMs(recovered)),
    platformSeconds: summarize(getMs(onePart)),
    partSeconds: summarize(getPartMs(false)),
    disturbedPartSeconds: summarize(getPartMs(true)),
    startedFromOutside: tally(results.flatMap((result) => result.startedFromOutside)),
  };
}

const [begin, end] = ["<!-- results: begin -->", "<!-- results: end -->"];

export function renderReport(report: Report): string {
  const total = Object.values(report.faults).reduce((sum, count) => sum + count, 0);
  const rows = (counts: Readonly<Record<string, number>>) =>
    Object.entries(counts).map(([name, count]) => `| ${name} | ${count} |`);
  const times = (what: string, value: Times | undefined) =>
    `| ${what} | ${value ? `${value.count} | ${value.median} s | ${value.worst} s` : "0 | – | –"} |`;
  const outside = Object.entries(report.startedFromOutside).map(([part, count]) => `${part} ${count}`);
  return [
    `Run of ${report.date}: ${report.minutes} minutes, ${report.histories} histories, ${report.steps} steps, ${total} faults; seeds ${report.seeds.join(", ")}.`,
    "",
    "| Time to recover | Measured | Median | Worst |",
    "|---|---|---|---|",
    times("killed part: SIGKILL until its readiness endpoint answers", report.partSeconds),
    times("the same while other faults go on", report.disturbedPartSeconds),
    times("one killed part: until every part, status and guest was checked", report.platformSeconds),
    times("whole step: from its last fault until its operations were done and checked", report.stepSeconds),
    "",
    `Parts that were started by a command and not by the supervisor: ${outside.join(", ") || "none"}.`,
    "",
    "| Broken promise | Histories |",
    "|---|---|",
    ...rows(report.violations),
    "",
    "| Operation | Times |",
    "|---|---|",
    ...rows(report.operations),
    "",
    "| Fault | Times |",
    "|---|---|",
    ...rows(report.faults),
  ].join("\n");
}

/** Replaces the results section of a document. */
export async function writeResults(file: string, report: Report): Promise<void> {
  const text = await readFile(file, "utf8");
  const [head, rest] = text.split(begin);
  const tail = rest?.split(end)[1];
  if (head === undefined || tail === undefined)
    throw new Error(`${file} has no section between ${begin} and ${end}`);
  await writeFile(file, `${head}${begin}\n\n${renderReport(report)}\n\n${end}${tail}`);
}
