/** What a finding makes of the object's status, and what is worth telling about it. Pure. */
import {
  findCondition,
  hibernationCondition,
  restartsPhaseClock,
  withConditions,
  type CocoonHibernationStatus,
  type HibernationPhase,
} from "@cocoon/contract";
import type { Happening, Texts } from "../cocoonset/draft.ts";
import type { HibernationWorld } from "./world.ts";

/** What the evidence says, before it becomes a phase. */
export interface Finding {
  readonly phase: HibernationPhase;
  readonly message?: string;
  readonly digest?: string | undefined;
  readonly podChanges?: Texts | undefined;
  readonly ask?: boolean;
  readonly retry?: boolean;
  readonly drop?: string;
  readonly lookAgainMs?: number;
  readonly timedOut?: boolean;
}

export interface Duration {
  readonly of: "hibernate" | "wake";
  readonly result: "ok" | "timeout";
  readonly ms: number;
}

export function statusOf(world: HibernationWorld, finding: Finding): CocoonHibernationStatus {
  const { hibernation, machine, now, retryText } = world;
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
    attempts: attemptsOf(status, generation) + (starts ? 1 : 0),
    ...(retryText === "" ? {} : { observedRetry: retryText }),
  };
}

/** Attempts are counted per wish. */
function attemptsOf(status: CocoonHibernationStatus | undefined, generation: number): number {
  return status?.observedGeneration === generation ? (status.attempts ?? 0) : 0;
}

/** Told when the phase changes, which is persisted: so once, also across restarts. */
export function happeningsOf(
  { hibernation }: HibernationWorld,
  { phase, message = "", timedOut }: Finding,
): Happening[] {
  const before = hibernation.status?.phase;
  if (before === phase) return [];
  const happenings: Happening[] = [];
  if (before === "Failed" && (phase === "Hibernating" || phase === "Waking"))
    happenings.push({ type: "Normal", reason: "RetryRequested", message: "trying again" });
  if (phase === "Hibernated")
    happenings.push({ type: "Normal", reason: "Hibernated", message: "the machine sleeps" });
  if (phase === "Active" && before !== undefined)
    happenings.push({ type: "Normal", reason: "WokenActive", message: "the machine is awake" });
  if (phase === "Failed") {
    const late = hibernation.status?.phase === "Waking" ? "WakeTimedOut" : "HibernateTimedOut";
    happenings.push({ type: "Warning", reason: timedOut ? late : "HibernationFailed", message });
  }
  return happenings;
}

export function durationOf({ hibernation, now }: HibernationWorld, finding: Finding): Duration | undefined {
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
