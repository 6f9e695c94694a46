/** From what was observed to the object's status and events. Pure. */
import {
  findCondition,
  hibernationCondition,
  restartsPhaseClock,
  withConditions,
  type CocoonHibernation,
  type CocoonHibernationStatus,
  type HibernationPhase,
} from "@cocoon/contract";
import type { Event, Texts } from "../cocoonset/draft.ts";
import type { TagAnswer } from "../cocoonset/observed-set.ts";
import type { Machine } from "../pod-machine.ts";

/** Everything that a plan for one CocoonHibernation may look at. */
export interface ObservedHibernation {
  readonly hibernation: CocoonHibernation;
  /** Undefined: there is no such pod, or it is being deleted. */
  readonly machine: Machine | undefined;
  /** Name of the set that owns the pod; its controller then writes the key. */
  readonly ownerSet: string;
  /** The set sleeps as a whole: that outranks a request to wake one machine. */
  readonly setSuspended: boolean;
  /** What the registry has of the machine; undefined when it was not looked up yet. */
  readonly tag: TagAnswer | undefined;
  readonly retryText: string;
  readonly now: Date;
}

/** What was observed, before it becomes a phase. */
export interface Finding {
  readonly phase: HibernationPhase;
  readonly message?: string;
  readonly digest?: string | undefined;
  readonly podChanges?: Texts | undefined;
  readonly needsLookup?: boolean;
  readonly retry?: boolean;
  readonly drop?: string;
  /** A snapshot that stays in the registry although the machine runs: not proven to be where it comes from. */
  readonly kept?: string;
  readonly requeueAfterMs?: number;
  readonly timedOut?: boolean;
}

export interface Duration {
  readonly of: "hibernate" | "wake";
  readonly result: "ok" | "timeout";
  readonly ms: number;
}

export function computeStatus(observed: ObservedHibernation, finding: Finding): CocoonHibernationStatus {
  const { hibernation, machine, now, retryText } = observed;
  const { status, metadata } = hibernation;
  const generation = metadata.generation ?? 0;
  const starts = restartsPhaseClock(status?.phase, finding.phase);
  const vmName = machine?.vm.vmName || status?.vmName;
  const report = hibernationCondition(finding.phase, generation, finding.message || finding.phase);
  const { snapshotDigest: _before, observedRetry: _retry, ...kept } = status ?? {};
  return {
    ...kept,
    observedGeneration: generation,
    phase: finding.phase,
    ...(vmName ? { vmName } : {}),
    conditions: withConditions(status?.conditions, [report], { now, restart: starts ? ["Ready"] : [] }),
    ...(finding.digest === undefined ? {} : { snapshotDigest: finding.digest }),
    attempts: countAttempts(status, generation) + (starts ? 1 : 0),
    ...(retryText === "" ? {} : { observedRetry: retryText }),
  };
}

/** Attempts are counted per request. */
function countAttempts(status: CocoonHibernationStatus | undefined, generation: number): number {
  return status?.observedGeneration === generation ? (status.attempts ?? 0) : 0;
}

/** Emitted when the phase changes, which is persisted: so once, also across restarts. */
export function computeEvents(
  { hibernation }: ObservedHibernation,
  { phase, message = "", timedOut, kept }: Finding,
): Event[] {
  const before = hibernation.status?.phase;
  return [
    ...describeKept(kept),
    ...(before === phase ? [] : phaseEvents(before, { phase, message, timedOut })),
  ];
}

interface NewPhase {
  readonly phase: HibernationPhase;
  readonly message: string;
  readonly timedOut: boolean | undefined;
}

function phaseEvents(before: HibernationPhase | undefined, { phase, message, timedOut }: NewPhase): Event[] {
  const events: Event[] = [];
  if (before === "Failed" && (phase === "Hibernating" || phase === "Waking"))
    events.push({ type: "Normal", reason: "RetryRequested", message: "trying again" });
  if (phase === "Hibernated")
    events.push({ type: "Normal", reason: "Hibernated", message: "the machine sleeps" });
  if (phase === "Active" && before !== undefined)
    events.push({ type: "Normal", reason: "WokenActive", message: "the machine is awake" });
  if (phase === "Failed") {
    const late = before === "Waking" ? "WakeTimedOut" : "HibernateTimedOut";
    events.push({ type: "Warning", reason: timedOut ? late : "HibernationFailed", message });
  }
  return events;
}

function describeKept(digest: string | undefined): Event[] {
  if (digest === undefined) return [];
  const message = `snapshot ${digest} is kept: the running machine is not known to be restored from it`;
  return [{ type: "Warning", reason: "SnapshotKept", message }];
}

export function computeDuration(
  { hibernation, now }: ObservedHibernation,
  finding: Finding,
): Duration | undefined {
  const { status } = hibernation;
  const of = { Hibernating: "hibernate", Waking: "wake" }[String(status?.phase)] as
    | "hibernate"
    | "wake"
    | undefined;
  if (!of || finding.phase === status?.phase) return undefined;
  const done = finding.phase === (of === "hibernate" ? "Hibernated" : "Active");
  if (!done && !finding.timedOut) return undefined;
  const since = Date.parse(findCondition(status?.conditions, "Ready")?.lastTransitionTime ?? "");
  return { of, result: done ? "ok" : "timeout", ms: Math.max(0, now.getTime() - since) };
}
