/** Runs one step: writes tokens, requests the operations, injects the faults, waits until all is as requested, checks. */
import { sleep } from "@cocoon/core";
import { checkPromises, findUnsettled, settle, type Violation } from "./check.ts";
import { injectFault, type EtcdCopy } from "./faults.ts";
import { isAsleep, listMachines, type Model } from "./model.ts";
import { requestOperation, expectOperation } from "./operations.ts";
import type { Recovery } from "./recovery.ts";
import { describeFault, type Fault, type PlacedFault, type Step } from "./steps.ts";
import type { Platform } from "./platform.ts";

/** A milestone that does not come does not keep its fault back for ever. */
const milestoneMs = 20_000;

export interface StepResult {
  readonly step: Step;
  /** Faults that hit something. */
  readonly faults: readonly Fault[];
  /** From the end of the last fault until everything was as requested again. */
  readonly recoverMs: number | undefined;
  /** How long each killed part was away. */
  readonly recoveries: readonly Recovery[];
  readonly violations: readonly Violation[];
  /** Parts that the platform did not restart by itself. */
  readonly startedFromOutside: readonly string[];
}

export interface RunOptions {
  readonly settleMs: number;
  readonly copy: EtcdCopy | undefined;
  /** False leaves the tokens of the step before in place. */
  readonly writesTokens?: boolean;
}

export async function runStep(
  platform: Platform,
  model: Model,
  { step, settleMs, copy, writesTokens = true }: RunOptions & { readonly step: Step },
): Promise<StepResult> {
  const phases = new PhaseTimes();
  if (writesTokens) await writeTokens(platform, model);
  phases.end("tokens");
  for (const operation of step.operations) expectOperation(model, operation);
  const requested = Promise.allSettled(
    step.operations.map((operation) => requestOperation(platform, model, operation)),
  );
  const { injected, lastFaultAt } = await injectFaults({ platform, model, copy, step, requested });
  phases.end("faults");
  const started: string[] = injected.some((fault) => fault.kind === "kill" && fault.part === "supervisor")
    ? ["supervisor"]
    : [];
  started.push(...(await platform.startDeadParts()));
  for (const [index, outcome] of (await requested).entries())
    // A drain that was interrupted is requested only once; everything else must reach the API server.
    if (outcome.status === "rejected" && step.operations[index]?.kind !== "drain") throw outcome.reason;
  started.push(...(await platform.startDeadParts()));
  phases.end("request");
  const stuck = await settle(platform, model, settleMs);
  phases.end("settle");
  const violations = [...stuck, ...(stuck.length > 0 ? [] : await checkPromises(platform, model))];
  phases.end("check");
  platform.log(`  seconds: ${phases.describe()}`);
  // Recovered means that guests answer, not only that the status is ready.
  const recoverMs =
    injected.length > 0 && violations.length === 0 ? performance.now() - lastFaultAt : undefined;
  const recoveries = platform.recovery.take();
  return {
    step,
    faults: injected,
    recoverMs,
    recoveries,
    violations,
    startedFromOutside: [...new Set(started)],
  };
}

interface Injection {
  readonly platform: Platform;
  readonly model: Model;
  readonly copy: EtcdCopy | undefined;
  readonly step: Step;
  readonly requested: Promise<unknown>;
}

async function injectFaults({ platform, model, copy, step, requested }: Injection) {
  const injected: Fault[] = [];
  let lastFaultAt = performance.now();
  const done = new AbortController();
  const milestonesEnd = AbortSignal.any([done.signal, AbortSignal.timeout(milestoneMs)]);
  if (step.faults.some(({ on }) => on)) void abortWhenSettled(platform, model, { requested, done });
  const inject = async (fault: PlacedFault) => {
    if (fault.on) await platform.registry.reached(fault.on, milestonesEnd);
    await sleep(fault.afterMs, { signal: platform.signal });
    // A request that is repeated after the restore would not be forgotten, as the model expects.
    if (fault.kind === "etcdRestore") await requested;
    if (await injectFault({ platform, model, copy }, fault)) {
      injected.push(fault);
      platform.log(`  fault: ${describeFault(fault)}`);
    }
    // Nothing is left that could reach a milestone.
    if (fault.kind === "powerCut") done.abort();
    lastFaultAt = Math.max(lastFaultAt, performance.now());
  };
  await Promise.all(step.faults.map(inject));
  done.abort();
  return { injected, lastFaultAt };
}

/** An operation that has ended reaches no further milestone: what waits for one goes on. */
async function abortWhenSettled(
  platform: Platform,
  model: Model,
  { requested, done }: { readonly requested: Promise<unknown>; readonly done: AbortController },
): Promise<void> {
  await requested;
  while (!done.signal.aborted && !platform.signal.aborted) {
    await sleep(1_000, { signal: done.signal });
    const unsettled = await findUnsettled(platform, model).catch(() => ["the API server does not answer"]);
    if (unsettled.length === 0) done.abort();
  }
}

class PhaseTimes {
  readonly #texts: string[] = [];
  #began = performance.now();

  end(name: string): void {
    const now = performance.now();
    this.#texts.push(`${name} ${((now - this.#began) / 1000).toFixed(1)}`);
    this.#began = now;
  }

  describe(): string {
    return this.#texts.join(", ");
  }
}

/** Every machine that is awake gets a new token. */
export async function writeTokens(platform: Platform, model: Model): Promise<void> {
  await Promise.all(
    listMachines(model)
      .filter(({ set, machine }) => !isAsleep(set, machine))
      .map(async ({ machine }) => {
        model.sequence += 1;
        const token = `${machine.pod}.${model.sequence}`;
        const state = await platform.writeToken(machine.pod, token);
        Object.assign(machine, { token, bootId: state.bootId, counter: state.counter });
      }),
  );
}
