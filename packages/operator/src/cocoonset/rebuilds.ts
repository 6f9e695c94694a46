/**
 * Machines that failed: replaced at once, then after 1, 5 and 30 seconds, then left for people to look at (dead
 * letter). What was done is persisted on the set before the pod goes. Attempts are forgotten when the machine has been
 * ready for a while, when its spec changed, or when a user removed the pod that was left.
 */
import {
  annotation,
  readRebuildHistory,
  setAnnotation,
  writeRebuildHistory,
  type Rebuilds as Attempts,
} from "@cocoon/contract";
import { parseDuration } from "@cocoon/core";
import { readySince, type Machine } from "../pod-machine.ts";
import type { Draft } from "./draft.ts";
import { findDrift } from "./drift.ts";
import { mayReplaceFailed } from "./replace-failed.ts";
import { memberKey, type AgentMember, type Member } from "./members.ts";

const waitsMs = [0, 1_000, 5_000, 30_000];
const maxRebuilds = waitsMs.length;
/** The count of a machine that was given to people: one more than any rebuild leaves. */
const deadLetterCount = maxRebuilds + 1;
const defaultResetMs = 10 * 60_000;

type Key = number | string;

export class Rebuilds {
  readonly #draft: Draft;
  readonly #before: readonly [slots: string, toolboxes: string];
  readonly #history: Map<Key, Attempts>;
  readonly #replace: { readonly member: Member; readonly machine: Machine; readonly why: string }[] = [];
  readonly #bury: { readonly member: Member; readonly machine: Machine }[] = [];

  constructor(draft: Draft) {
    this.#draft = draft;
    const { annotations = {} } = draft.observed.set.metadata;
    this.#history = new Map<Key, Attempts>([
      ...readRebuildHistory(annotations),
      ...readToolboxRebuilds(annotations[setAnnotation.toolboxRebuilds]),
    ]);
    this.#before = this.#texts();
  }

  /** A sub-agent or toolbox that failed. */
  consider(member: Member, machine: Machine): void {
    if (machine.hibernate) {
      this.#draft.problem(
        "SleepFailed",
        `${machine.podName} cannot go to sleep: ${machine.lifecycle.message}`,
      );
      return;
    }
    if (findDrift(this.#draft.observed.set, member, machine) !== undefined)
      return this.#startOver(member, machine);
    const attempts = this.#history.get(memberKey(member));
    const count = attempts?.count ?? 0;
    if (count >= maxRebuilds) return void this.#bury.push({ member, machine });
    const leftMs = this.#leftMs(attempts);
    if (leftMs > 0) return this.#draft.requeueAfter(leftMs);
    if (mayReplaceFailed(this.#draft, member, machine)) this.#again(member, machine);
  }

  /** The main agent is rebuilt only where the spec says so. */
  considerMain(member: AgentMember, machine: Machine): void {
    const { set } = this.#draft.observed;
    const drift = findDrift(set, member, machine);
    if (drift !== undefined && !machine.hibernate) return this.#startOver(member, machine);
    if ((set.spec.rebuild?.main ?? "Never") !== "Never") this.consider(member, machine);
  }

  considerDeadLetter(member: Member, machine: Machine): void {
    if (findDrift(this.#draft.observed.set, member, machine) !== undefined)
      return this.#startOver(member, machine);
    this.#draft.problem(
      "DeadLetter",
      `${machine.podName} failed ${maxRebuilds + 1} times and is left as it is`,
    );
  }

  considerHealthy(member: Member, machine: Machine): void {
    const key = memberKey(member);
    if (!this.#history.has(key) || !machine.ready) return;
    const { set, now } = this.#draft.observed;
    const resetMs = set.spec.rebuild?.resetAfter
      ? parseDuration(set.spec.rebuild.resetAfter)
      : defaultResetMs;
    const leftMs = readySince(machine) + resetMs - now.getTime();
    if (leftMs > 0) this.#draft.requeueAfter(leftMs);
    else this.#history.delete(key);
  }

  /** No pod although it was left for users to examine: one removed it, so it gets a fresh start. */
  noteMissing(member: Member): void {
    const key = memberKey(member);
    if ((this.#history.get(key)?.count ?? 0) >= deadLetterCount) this.#history.delete(key);
  }

  #startOver(member: Member, machine: Machine): void {
    if (!mayReplaceFailed(this.#draft, member, machine)) return;
    this.#history.delete(memberKey(member));
    this.#replace.push({ member, machine, why: "its spec changed after it failed" });
  }

  #again(member: Member, machine: Machine): void {
    const key = memberKey(member);
    const count = (this.#history.get(key)?.count ?? 0) + 1;
    this.#history.set(key, { count, lastDeleted: this.#draft.observed.now });
    this.#replace.push({ member, machine, why: `it failed: rebuild ${count} of ${maxRebuilds}` });
  }

  #leftMs(attempts: Attempts | undefined): number {
    if (!attempts) return 0;
    const waitMs = waitsMs[attempts.count] ?? 0;
    return attempts.lastDeleted.getTime() + waitMs - this.#draft.observed.now.getTime();
  }

  finish(): void {
    const draft = this.#draft;
    for (const { member } of this.#bury)
      this.#history.set(memberKey(member), { count: deadLetterCount, lastDeleted: draft.observed.now });
    this.#prune();
    const [slots, toolboxes] = this.#texts();
    if (slots !== this.#before[0] || toolboxes !== this.#before[1])
      draft.do({
        kind: "annotateSet",
        wanted: {
          [setAnnotation.rebuildHistory]: slots || null,
          [setAnnotation.toolboxRebuilds]: toolboxes || null,
        },
      });
    for (const { machine, why } of this.#replace) {
      draft.deletePod(machine, why);
      draft.do({ kind: "count", what: { metric: "rebuild" } });
      draft.emit("Normal", "SubAgentRebuilding", `${machine.podName}: ${why}`);
    }
    for (const { machine } of this.#bury) this.#deadLetter(machine);
  }

  #deadLetter(machine: Machine): void {
    this.#draft.do(
      { kind: "changePod", machine, annotations: { [annotation.deadLetter]: "true" } },
      { kind: "count", what: { metric: "deadLetter" } },
    );
    const message = `${machine.podName} failed again after ${maxRebuilds} rebuilds: ${machine.lifecycle.message || "no reason given"}`;
    this.#draft.emit("Warning", "SubAgentDeadLetter", message);
  }

  #prune(): void {
    const { subAgents, toolboxes } = this.#draft.observed.members;
    const names = new Set(toolboxes.map((toolbox) => toolbox.name));
    for (const key of this.#history.keys())
      if (typeof key === "number" ? key > subAgents.length : !names.has(key)) this.#history.delete(key);
  }

  #texts(): readonly [string, string] {
    const entries = [...this.#history];
    const slots = new Map(
      entries.filter((entry): entry is [number, Attempts] => typeof entry[0] === "number"),
    );
    const named = entries.filter(([key]) => typeof key === "string");
    return [writeRebuildHistory(slots), writeToolboxRebuilds(named as [string, Attempts][])];
  }
}

/** The same form as the history of slots, by name: each name stands as slot of a history of its own. */
function readToolboxRebuilds(text: string | undefined): [string, Attempts][] {
  try {
    const parsed: unknown = JSON.parse(text || "{}");
    if (typeof parsed !== "object" || parsed === null) return [];
    return Object.entries(parsed).flatMap(([name, value]): [string, Attempts][] => {
      const one = readRebuildHistory({
        [setAnnotation.rebuildHistory]: JSON.stringify({ 0: value as unknown }),
      });
      const attempts = one.get(0);
      return attempts ? [[name, attempts]] : [];
    });
  } catch {
    return []; // it only paces rebuilds: what cannot be read counts as no history
  }
}

function writeToolboxRebuilds(entries: readonly [string, Attempts][]): string {
  if (entries.length === 0) return "";
  const parsed = entries.map(([name, attempts]): [string, unknown] => {
    const one = JSON.parse(writeRebuildHistory(new Map([[0, attempts]]))) as Record<string, unknown>;
    return [name, one["0"]];
  });
  return JSON.stringify(Object.fromEntries(parsed.sort(([left], [right]) => (left < right ? -1 : 1))));
}
