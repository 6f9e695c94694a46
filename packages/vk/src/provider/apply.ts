/** Applies one step of the plan: one effect each. Every step may be repeated. */
import { annotation, latestTag } from "@cocoon/contract";
import { Fault, getErrorMessage, isFault, sleep, type Abortable, type FaultCode } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { writeEnvironment } from "../guest/environment.ts";
import { readPodMachine } from "../pod-machine.ts";
import { dropLocalSnapshot } from "../node-snapshots.ts";
import {
  clearDigest,
  drop,
  push,
  pushAhead,
  release,
  remove,
  reportSnapshot,
  save,
  settle,
  unpause,
} from "./apply-snapshots.ts";
import { noteContained, rewind, saveNamed } from "./named-snapshots.ts";
import { bringUp, type BringUp } from "./bring-up.ts";
import {
  publishReadiness,
  showAsleep,
  showEnded,
  showHibernating,
  showStatic,
  startProbe,
} from "./readiness.ts";
import { pushHibernated, WakeRequested } from "./push-hibernated.ts";
import { announceLocal } from "./restore-lazily.ts";
import { keepSandboxUntilSettled } from "./sandbox-owner.ts";
import { listHibernated } from "./snapshot-list.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";
import type { Step, StepOf } from "./step.ts";
import { takeOver } from "./take-over.ts";

interface Applied<S extends Step = Step> {
  readonly step: S;
  /** The VM that the step is for. */
  readonly record: Vm | undefined;
}

type Handlers = {
  readonly [K in Step["kind"]]: (
    context: StepContext,
    applied: Applied<StepOf<K>>,
    options: Abortable,
  ) => unknown;
};

const getSnapshots = (context: StepContext) => requireSnapshots(context).inRegistry;
const getVmName = ({ tracked }: StepContext) => readPodMachine(tracked.writer.pod).vm.vmName;
const bring = (context: StepContext, { step }: Applied<BringUp>, options: Abortable) =>
  bringUp(context, step, options);

const handlers: Handlers = {
  settled: () => undefined,
  wait: () => undefined,
  refuse: (context, { step }) => refuse(context, step),
  showStatic: (context, _applied, options) => showStatic(context, options),
  // The status writer retries by itself.
  showAsleep: (context, _applied, options) => void showAsleep(context, options).catch(() => undefined),
  announce: (context, { step }, options) => announce(context, step, options),
  record: ({ tracked }, { step }, options) => tracked.writer.recordDigest(step.digest, options),
  clearId: ({ tracked }, _applied, options) => tracked.writer.clearVm(options),
  dropLocal: (context, _applied, options) => dropLocalSnapshot(context.runtime, getVmName(context), options),
  resume: ({ runtime }, { step }, options) => runtime.resume(step.vmId, options),
  start: (context, { step: { vmId } }, options) =>
    startPaced(context, () => context.runtime.start(vmId, options), options),
  wakeAgain: (context, { step: { vmId } }, options) =>
    startPaced(context, () => remove(context, vmId, options), options),
  removeClaim: (context, { step }, options) =>
    getSnapshots(context).removeClaim(getVmName(context), step.node, options),
  claim: (context, { step: { digest } }, options) =>
    getSnapshots(context).claim(getVmName(context), { digest, node: context.node }, options),
  seal: (context, { step: { digest } }, options) =>
    getSnapshots(context).seal(getVmName(context), { digest, node: context.node }, options),
  probe: (context, { record }) => record && startProbe(context, record),
  publish: (context, { record }, options) => record && publishReadiness(context, record, options),
  save: (context, { step }, options) => save(context, step, options),
  push: async (context, { record }, options) => {
    await keepSandboxUntilSettled(context.client, context.tracked.writer.pod, options);
    await pushHibernated(context, { record, ...options });
  },
  pushAhead: (context, { record }, options) => pushAhead(context, { record, ...options }),
  pushLatest: (context, { record }, options) => push(context, latestTag, { record, ...options }),
  remove: (context, { step }, options) => remove(context, step.vmId, options),
  pause: async ({ tracked, runtime, log }, { step }, options) => {
    // Before it stands still: what is found paused was meant to be.
    await tracked.writer.write({ [annotation.paused]: "true" }, options);
    tracked.stopProbing();
    await runtime.pause(step.vmId, options);
    log.info({ id: step.vmId }, "machine paused until it is used");
  },
  clearPaused: ({ tracked }, _applied, options) =>
    tracked.writer.write({ [annotation.paused]: null }, options),
  setEnvironment: (context, { record }, options) => setEnvironment(context, record, options),
  saveNamed: (context, { step, record }, options) => saveNamed(context, { ...step, record }, options),
  rewind: (context, { step }, options) => rewind(context, step.name, options),
  takeOver: (context, { record }, options) =>
    takeOver(context, { machine: readPodMachine(context.tracked.writer.pod), vm: record }, options),
  takeName: ({ tracked }, { step: { vmName } }, options) =>
    tracked.writer.write({ [annotation.vmName]: vmName }, options),
  announceLocal: (context, { record }, options) => announceLocal(context, record, options),
  dropTag: (context, { step: { digest }, record }, options) => drop(context, { digest, record }, options),
  releaseTag: (context, { step }, options) => release(context, step.digest, options),
  settleSnapshots: (context, _applied, options) => settle(context, options),
  reportSnapshot: (context, { step: { digest }, record }) => reportSnapshot(context, { digest, record }),
  clearDigest: (context, { record }, options) => clearDigest(context, record, options),
  restore: async (context, applied, options) => {
    await noteContained(context, applied.step.snapshot.digest, options);
    await bring(context, applied, options);
  },
  cloneFromDir: bring,
  fork: bring,
  run: bring,
  clone: bring,
  decideMode: bring,
};

/** Steps that are counted as phases of a hibernation, and the event of their failure. */
const phases: Partial<Record<Step["kind"], { readonly phase: string; readonly reason: string }>> = {
  save: { phase: "snapshot", reason: "HibernateSnapshotFailed" },
  push: { phase: "push", reason: "HibernatePushFailed" },
  pushAhead: { phase: "pushAhead", reason: "HibernatePushFailed" },
  pushLatest: { phase: "push", reason: "SnapshotPushFailed" },
  seal: { phase: "seal", reason: "HibernatePushFailed" },
  remove: { phase: "remove", reason: "HibernateRemoveFailed" },
};

export async function applyStep(context: StepContext, applied: Applied, options: Abortable): Promise<void> {
  const { kind } = applied.step;
  const { metrics, emit } = context;
  const counted = phases[kind];
  const count = (result: string) => counted && metrics.hibernate_total.inc({ phase: counted.phase, result });
  try {
    // The table pairs each kind with its own handler.
    await (handlers[kind] as (...call: [StepContext, Applied, Abortable]) => unknown)(
      context,
      applied,
      options,
    );
    count("ok");
  } catch (error) {
    const isUnwanted = error instanceof WakeRequested;
    count(isUnwanted ? "abandoned" : "failed");
    if (counted && !isUnwanted)
      emit({ type: "Warning", reason: counted.reason, message: getErrorMessage(error) });
    const pushes = kind === "push" || kind === "pushLatest";
    if (pushes && !options.signal.aborted) await unpause(context, error, options);
    throw error;
  }
}

/** A guest that runs no programs for us has them in programs that the kubelet starts in other ways. */
async function setEnvironment(
  { tracked, runtime, emit }: StepContext,
  record: Vm | undefined,
  options: Abortable,
): Promise<void> {
  const { env } = readPodMachine(tracked.writer.pod);
  if (!record || !env) return;
  try {
    await writeEnvironment(runtime, { vmId: record.id, env: env.values }, options);
  } catch (error) {
    if (!isFault(error, "notSupported") && !isFault(error, "notFound")) throw error;
    emit({ type: "Warning", reason: "EnvironmentNotWritten", message: getErrorMessage(error) });
  }
  await tracked.writer.write({ [annotation.envApplied]: env.hash }, options);
}

async function announce(
  context: StepContext,
  { state }: StepOf<"announce">,
  options: Abortable,
): Promise<void> {
  const { tracked, log, emit } = context;
  const { recordedDigest } = readPodMachine(tracked.writer.pod);
  if (state === "hibernated") {
    await listHibernated(context, options);
    // A client that sees the annotation finds the status the same.
    await showAsleep(context, options);
  }
  await tracked.writer.announce({ state }, options);
  if (state === "hibernating") {
    tracked.pushedAhead = false;
    log.info("machine hibernating");
    if (tracked.ending) showHibernating(context);
  }
  if (state !== "hibernated") return;
  log.info({ digest: recordedDigest }, "machine hibernated");
  const message = `the machine is hibernated in ${recordedDigest}; its VM is gone from the node`;
  emit({ type: "Normal", reason: "Hibernated", message });
}

/** The pod is shown as failed, which is final: the VM is gone, or does not stay up. Every other refusal is retried. */
const final: ReadonlySet<string> = new Set(["VMGone", "RestartCooldown", "RestartFailed"]);

const evidence: Readonly<Record<string, string>> = {
  HibernateEvidenceUnavailable: "unavailable",
  HibernateEvidenceFailed: "failed",
};

function refuse(context: StepContext, { reason, message, waits }: StepOf<"refuse">): void {
  const { emit, metrics, tracked } = context;
  emit({ type: "Warning", reason, message });
  const verdict = evidence[reason];
  if (verdict) metrics.hibernate_evidence_total.inc({ verdict });
  if (final.has(reason) && !tracked.ending) return showEnded(context, { reason, message });
  throw new Fault(waits ? "unavailable" : "preconditionFailed", message);
}

/** A guest that powers off again and again is not started in a tight loop, nor for ever: `planStart` counts. */
async function startPaced(
  { tracked, restartPauseMs, log }: StepContext,
  work: () => Promise<unknown>,
  options: Abortable,
): Promise<void> {
  const { starts } = tracked;
  const sinceMs = performance.now() - tracked.lastStartMs;
  if (sinceMs < restartPauseMs) await sleep(restartPauseMs - sinceMs, options);
  const stayedUp = sinceMs >= restartPauseMs * stablePauses;
  tracked.lastStartMs = performance.now();
  tracked.restarts += 1;
  tracked.starts = { inRow: stayedUp ? 1 : starts.inRow + 1, failure: "" };
  try {
    await work();
  } catch (error) {
    const inRow = isFault(error) && couldNotAsk.has(error.code) ? starts.inRow : tracked.starts.inRow;
    tracked.starts = { inRow, failure: getErrorMessage(error) };
    throw error;
  }
  log.info({ restarts: tracked.restarts }, "machine is started again");
}

/** A VM that ran for so many pauses counts as well again. */
const stablePauses = 10;
/** The engine gave no answer, so nothing is known of the VM. */
const couldNotAsk: ReadonlySet<FaultCode> = new Set(["unavailable", "timeout"]);
