/** Writes a set's status when it differs, emits events, and holds back what will be outdated in a moment. */
import { findCondition, type CocoonSet, type CocoonSetStatus, type SetPhase } from "@cocoon/contract";
import { createMergePatch, jsonEqual, type Abortable } from "@cocoon/core";
import { referenceTo } from "@cocoon/kube/controller";
import { cocoonSets, patchStatus } from "../kinds.ts";
import type { SetParts } from "./parts.ts";
import type { Event } from "./draft.ts";

/** Written at once, because later passes or people depend on it; the others are steps on the way. */
const passing: ReadonlySet<string> = new Set(["", "Pending", "Scaling"]);

/** A set that gets on is shown later than one that stands still, but not for ever. */
const maxDelays = 5;
/** Where every step takes long, for all sets, standing still for that long means little: up to this many times longer. */
const maxSlowdown = 3;
/** Share of the newest step in the average. */
const newest = 0.1;

interface Held {
  readonly since: number;
  readonly changedAt: number;
  readonly text: string;
}

export class StatusWriter {
  readonly #parts: SetParts;
  readonly #held = new Map<string, Held>();
  /** How long a step of a set that comes up takes at the moment, on average over all sets. */
  #stepMs = 0;

  constructor(parts: SetParts) {
    this.#parts = parts;
  }

  /** Whether any set is on its way up: its status is held back until it gets there. */
  get holdsAny(): boolean {
    return this.#held.size > 0;
  }

  /** Milliseconds after which to requeue for a status that was held back; 0 when there is nothing left to write. */
  async writeSoon(set: CocoonSet, status: CocoonSetStatus, options: Abortable): Promise<number> {
    const { uid = "" } = set.metadata;
    const leftMs = this.#holdMs(set, status);
    if (leftMs > 0) return leftMs;
    this.#held.delete(uid);
    await this.write(set, status, options);
    return 0;
  }

  async write(set: CocoonSet, status: CocoonSetStatus, options: Abortable): Promise<void> {
    if (await patchStatus(this.#parts.sets, { object: set, status }, options)) this.#emit(set, status);
  }

  forget(uid: string): void {
    this.#held.delete(uid);
  }

  #holdMs(set: CocoonSet, status: CocoonSetStatus): number {
    const before = set.status;
    const onTheWay = passing.has(before?.phase ?? "") && passing.has(status.phase ?? "");
    const sameProblem = jsonEqual(readProblem(before), readProblem(status));
    if (!onTheWay || !sameProblem || createMergePatch(before ?? {}, status) === undefined) return 0;
    const now = this.#parts.now().getTime();
    const { since, changedAt } = this.#hold(set.metadata.uid ?? "", describeProgress(status), now);
    const { statusDelayMs } = this.#parts;
    const delayMs = Math.min(Math.max(statusDelayMs, 3 * this.#stepMs), maxSlowdown * statusDelayMs);
    return Math.min(changedAt + delayMs, since + maxDelays * delayMs) - now;
  }

  #hold(uid: string, text: string, now: number): Held {
    const before = this.#held.get(uid);
    if (before?.text === text) return before;
    if (before) this.#stepMs += (now - before.changedAt - this.#stepMs) * newest;
    const held = { since: before?.since ?? now, changedAt: now, text };
    this.#held.set(uid, held);
    return held;
  }

  #emit(set: CocoonSet, status: CocoonSetStatus): void {
    const { events, metrics } = this.#parts;
    const reference = referenceTo(cocoonSets, set);
    for (const event of computeEvents(set.status, status)) {
      events.record(reference, event);
      if (event.reason === "PodLifecycleFailed")
        metrics.lifecycleFailed.inc({ phase: set.status?.phase ?? "Pending" });
    }
  }
}

function readProblem(status: CocoonSetStatus | undefined): readonly string[] {
  const degraded = findCondition(status?.conditions, "Degraded");
  return degraded?.status === "True" ? [degraded.reason, degraded.message] : [];
}

/** What moves while a set comes up. */
function describeProgress({
  phase,
  readyAgents,
  readyToolboxes,
  agents,
  toolboxes,
}: CocoonSetStatus): string {
  const machines = [...(agents ?? []), ...(toolboxes ?? [])].map(({ podName, nodeName, ready }) => [
    podName,
    nodeName,
    ready,
  ]);
  return JSON.stringify([phase, readyAgents, readyToolboxes, machines]);
}

/** Once per transition, because it follows from what is persisted. */
function computeEvents(before: CocoonSetStatus | undefined, after: CocoonSetStatus): readonly Event[] {
  return [
    ...problemEvents(before, after),
    ...keptEvents(before, after),
    ...phaseEvents(before?.phase, after),
  ];
}

function problemEvents(before: CocoonSetStatus | undefined, after: CocoonSetStatus): readonly Event[] {
  const [old, now] = [
    findCondition(before?.conditions, "Degraded"),
    findCondition(after.conditions, "Degraded"),
  ];
  if (now?.status !== "True") return [];
  if (old?.status === "True" && old.reason === now.reason) return [];
  return [{ type: "Warning", reason: now.reason, message: now.message }];
}

function keptEvents(before: CocoonSetStatus | undefined, after: CocoonSetStatus): readonly Event[] {
  const [old, now] = [before, after].map((status) => findCondition(status?.conditions, "SnapshotsKept"));
  if (now?.status !== "True" || old?.message === now.message) return [];
  return [{ type: "Warning", reason: "SnapshotKept", message: now.message }];
}

const asleep: ReadonlySet<SetPhase> = new Set(["Suspended", "Suspending", "Waking"]);

function phaseEvents(before: SetPhase | undefined, { phase }: CocoonSetStatus): readonly Event[] {
  if (phase === undefined || phase === before || before === undefined) return [];
  if (before === "Failed" && (phase === "Running" || phase === "Scaling"))
    return [{ type: "Normal", reason: "RecoveredFromFailure", message: "the main agent is ready again" }];
  if (phase === "Suspended")
    return [{ type: "Normal", reason: "Suspended", message: "every machine sleeps" }];
  if (phase === "Running" && asleep.has(before))
    return [{ type: "Normal", reason: "Woken", message: "every machine is awake again" }];
  return [];
}
