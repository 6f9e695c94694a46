/** Runs random steps, or a list of steps from a file, until the time or the number is reached or a promise is broken. */
import { writeFile } from "node:fs/promises";
import { seededRandom } from "@cocoon/testkit";
import { copyEtcd, type EtcdCopy } from "./faults.ts";
import { StepGenerator } from "./generate.ts";
import { listMachines, newModel, type Model } from "./model.ts";
import { runStep, type StepResult } from "./run-step.ts";
import { describeStep, type HistoryFile, type Step } from "./steps.ts";
import type { Platform } from "./platform.ts";

export interface RandomOptions {
  readonly seed: number;
  readonly only: readonly string[];
  readonly except: readonly string[];
  readonly steps: number | undefined;
  readonly until: number | undefined;
  readonly replay: HistoryFile | undefined;
  /** Steps are written here before they run, so that a run that is cut off can be repeated. */
  readonly historyFile: string;
  readonly settleMs: number;
  readonly onResult?: (result: StepResult) => void;
}

/** Stops at the first step that broke a promise. */
export async function runRandom(platform: Platform, options: RandomOptions): Promise<StepResult[]> {
  const { only, except } = options;
  const generator = new StepGenerator({ random: seededRandom(options.seed), only, except });
  const model: Model = newModel();
  const results: StepResult[] = [];
  const steps: Step[] = [];
  let copy: EtcdCopy | undefined;
  const isDone = () =>
    (options.steps !== undefined && results.length >= options.steps) ||
    (options.until !== undefined && Date.now() >= options.until) ||
    (options.replay !== undefined && results.length >= options.replay.steps.length) ||
    platform.signal.aborted;
  const runNext = async (step: Step) => {
    steps.push(step);
    await writeFile(options.historyFile, `${JSON.stringify({ seed: options.seed, steps }, null, 1)}\n`);
    platform.log(`step ${steps.length}: ${describeStep(step)}`);
    if (step.copiesEtcd) copy = await copyEtcd(platform, model);
    const result = await runStep(platform, model, { step, settleMs: options.settleMs, copy });
    results.push(result);
    options.onResult?.(result);
    logResult(platform, result);
    return result.violations.length === 0;
  };
  let holds = true;
  while (holds && !isDone()) {
    holds = await runNext(options.replay?.steps[results.length] ?? generator.next(model));
  }
  // Every machine is woken once more and then removed: what sleeps badly, or is left behind, shows here.
  for (;;) {
    const last = holds && !options.replay ? endStep(model) : undefined;
    if (!last || platform.signal.aborted) break;
    holds = await runNext(last);
  }
  return results;
}

function endStep(model: Model): Step | undefined {
  const sets = Object.values(model.sets);
  const suspended = sets.find((set) => set.suspended);
  if (suspended) return { operations: [{ kind: "resume", set: suspended.name }], faults: [] };
  const asleep = listMachines(model).find(({ machine }) => machine.asleep);
  if (asleep) return { operations: [{ kind: "wake", pod: asleep.machine.pod }], faults: [] };
  const operations = sets.map(({ name }) => ({ kind: "delete", set: name }) as const);
  return operations.length === 0 ? undefined : { operations: operations.slice(0, 4), faults: [] };
}

function logResult(platform: Platform, { violations, recoverMs, recoveries }: StepResult): void {
  const parts = recoveries.map(
    ({ part, ms, disturbed }) => `${part} ${(ms / 1000).toFixed(1)} s${disturbed ? " (disturbed)" : ""}`,
  );
  if (parts.length > 0) platform.log(`  parts were ready again after: ${parts.join(", ")}`);
  const took = recoverMs === undefined ? "" : `, recovered in ${(recoverMs / 1000).toFixed(1)} s`;
  platform.log(`  ${violations.length === 0 ? "ok" : "BROKEN"}${took}`);
  for (const { kind, text } of violations) platform.log(`  ${kind}: ${text}`);
}
