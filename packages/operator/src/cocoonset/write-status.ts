/** Writes a set's status when it differs, tells what changed, and holds back what will be outdated in a moment. */
import { findCondition, type CocoonSet, type CocoonSetStatus } from "@cocoon/contract";
import { createMergePatch, jsonEqual, type Abortable } from "@cocoon/core";
import { keyOf } from "@cocoon/kube";
import { referenceTo } from "@cocoon/kube/controller";
import { cocoonSets } from "../kinds.ts";
import type { SetParts } from "./parts.ts";
import { happeningsOf } from "./transitions.ts";

/** Written at once, because later passes or people depend on it; the others are steps on the way. */
const passing: ReadonlySet<string> = new Set(["", "Pending", "Scaling"]);

/** A set that gets on is shown later than one that stands still, but not for ever. */
const mostDelays = 5;
/** Where every step takes long, for all sets, standing still for that long means little: up to this many times longer. */
const mostPatience = 3;
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

  /** Milliseconds after which to come back for a status that was held back; 0 when there is nothing left to write. */
  async writeSoon(set: CocoonSet, status: CocoonSetStatus, options: Abortable): Promise<number> {
    const { uid = "" } = set.metadata;
    const leftMs = this.#holdMs(set, status);
    if (leftMs > 0) return leftMs;
    this.#held.delete(uid);
    await this.write(set, status, options);
    return 0;
  }

  async write(set: CocoonSet, status: CocoonSetStatus, { signal }: Abortable): Promise<void> {
    const body = createMergePatch(set.status ?? {}, status);
    if (body === undefined) return;
    const { uid } = set.metadata;
    const patch = { type: "merge", body: { metadata: { uid }, status: body } } as const;
    await this.#parts.sets.patch({ key: keyOf(set), patch }, { signal, subresource: "status" });
    this.#tell(set, status);
  }

  forget(uid: string): void {
    this.#held.delete(uid);
  }

  #holdMs(set: CocoonSet, status: CocoonSetStatus): number {
    const before = set.status;
    const onTheWay = passing.has(before?.phase ?? "") && passing.has(status.phase ?? "");
    const sameTrouble = jsonEqual(troubleOf(before), troubleOf(status));
    if (!onTheWay || !sameTrouble || createMergePatch(before ?? {}, status) === undefined) return 0;
    const now = this.#parts.now().getTime();
    const { since, changedAt } = this.#hold(set.metadata.uid ?? "", progressOf(status), now);
    const { statusDelayMs } = this.#parts;
    const delayMs = Math.min(Math.max(statusDelayMs, 3 * this.#stepMs), mostPatience * statusDelayMs);
    return Math.min(changedAt + delayMs, since + mostDelays * delayMs) - now;
  }

  #hold(uid: string, text: string, now: number): Held {
    const before = this.#held.get(uid);
    if (before?.text === text) return before;
    if (before) this.#stepMs += (now - before.changedAt - this.#stepMs) * newest;
    const held = { since: before?.since ?? now, changedAt: now, text };
    this.#held.set(uid, held);
    return held;
  }

  #tell(set: CocoonSet, status: CocoonSetStatus): void {
    const { events, metrics } = this.#parts;
    const reference = referenceTo(cocoonSets, set);
    for (const happening of happeningsOf(set.status, status)) {
      events.record(reference, happening);
      if (happening.reason === "PodLifecycleFailed")
        metrics.lifecycleFailed.inc({ phase: set.status?.phase ?? "Pending" });
    }
  }
}

function troubleOf(status: CocoonSetStatus | undefined): readonly string[] {
  const degraded = findCondition(status?.conditions, "Degraded");
  return degraded?.status === "True" ? [degraded.reason, degraded.message] : [];
}

/** What moves while a set comes up. */
function progressOf({ phase, readyAgents, readyToolboxes, agents, toolboxes }: CocoonSetStatus): string {
  const machines = [...(agents ?? []), ...(toolboxes ?? [])].map(({ podName, nodeName, ready }) => [
    podName,
    nodeName,
    ready,
  ]);
  return JSON.stringify([phase, readyAgents, readyToolboxes, machines]);
}
