/** The set is to run: its main agent first, then toolboxes and sub-agents, and what earlier steps left to do. */
import { setAnnotation, type SetPhase } from "@cocoon/contract";
import type { Machine } from "../machine.ts";
import type { Draft, SetPlan } from "./draft.ts";
import { isLeaving, machineOf, restingPhase } from "./phase.ts";
import { createFrom, preferred, startOf } from "./plan-creation.ts";
import { giveUp, planLeftovers } from "./plan-leftovers.ts";
import { planMigration, type Migration } from "./plan-migration.ts";
import { planSubAgents, planToolboxes, planWarm } from "./plan-members.ts";
import { awakeCondition } from "./plan-suspended.ts";
import { proveAsleep } from "./proof.ts";
import { requiredNode } from "./pod-template.ts";
import { Rollout } from "./rollout.ts";
import { Rebuilds } from "./rebuilds.ts";
import { planSleepKeys } from "./wishes.ts";

export function planRunning(draft: Draft): SetPlan {
  const { world } = draft;
  awakeCondition(draft);
  const living = world.machines.filter(({ terminating, role }) => !terminating && role !== undefined);
  for (const machine of living) if (machine.asleep) proveAsleep(draft, machine);
  const migration = planMigration(draft);
  planSleepKeys(
    draft,
    living.filter(({ role }) => role !== "warm"),
    { suspended: false, leaving: migration.leaving },
  );
  const tools = { rollout: new Rollout(draft), rebuilds: new Rebuilds(draft) };
  const restoring = planMain(draft, migration, tools);
  const surplus = [...planToolboxes(draft, tools), ...planSubAgents(draft, tools), ...planWarm(draft)];
  giveUp(draft, surplus, "the spec no longer asks for it");
  tools.rebuilds.finish();
  tools.rollout.finish();
  const phase = runningPhase(draft, { migration, restoring });
  finishWake(draft, phase);
  planLeftovers(draft, living);
  return draft.finish(phase);
}

export interface Tools {
  readonly rollout: Rollout;
  readonly rebuilds: Rebuilds;
}

/** True when the main agent is being brought back from where it slept. */
function planMain(draft: Draft, migration: Migration, { rollout, rebuilds }: Tools): boolean {
  const { world } = draft;
  const { main } = world.members;
  noteDuplicates(draft);
  const machine = machineOf(world, main);
  if (!machine) return isLeaving(world, main) ? false : planNewMain(draft, migration);
  if (migration.busy) return false;
  if (machine.failed) {
    noteFailure(draft, machine);
    rebuilds.considerMain(main, machine);
    return false;
  }
  if (machine.node === "" && requiredNode(machine.pod) !== migration.pinnedTo)
    draft.do({
      kind: "deletePod",
      machine,
      why: "it waits for another node than the one that is wanted now",
    });
  else rollout.consider(main, machine);
  return false;
}

function planNewMain(draft: Draft, migration: Migration): boolean {
  const { world } = draft;
  const { main } = world.members;
  if (world.sourceTrouble !== "") {
    draft.trouble("SourceNotGranted", world.sourceTrouble);
    return false;
  }
  const start = startOf(draft, main);
  if (start.kind === "wait") return false;
  const hint = world.set.metadata.annotations?.[setAnnotation.hibernatedOnNode] ?? "";
  const restore = start.kind === "restore";
  const free = restore ? preferred(hint || start.node) : { kind: "anywhere" as const };
  const placement =
    migration.pinnedTo === "" ? free : { kind: "required" as const, node: migration.pinnedTo };
  createFrom(draft, main, { placement, restore });
  return restore;
}

function noteDuplicates(draft: Draft): void {
  const { machines, members } = draft.world;
  const others = machines.filter(({ role, podName }) => role === "main" && podName !== members.main.podName);
  for (const { podName } of others)
    draft.trouble("DuplicateMain", `pod ${podName} is labelled main too; remove it or its labels`);
}

function noteFailure(draft: Draft, machine: Machine): void {
  const reported = machine.lifecycle.state === "failed";
  draft.trouble(
    reported ? "PodLifecycleFailed" : "MainAgentFailed",
    `${machine.podName}: ${machine.lifecycle.message || machine.pod.status?.message || machine.pod.status?.phase || "failed"}`,
  );
}

interface Movements {
  readonly migration: Migration;
  readonly restoring: boolean;
}

function runningPhase(draft: Draft, { migration, restoring }: Movements): SetPhase {
  const resting = restingPhase(draft.world, draft.waking);
  if (migration.busy) return "Migrating";
  if (resting === "Failed") return "Failed";
  return isWaking(draft, restoring) ? "Waking" : resting;
}

/** Only the wake from a seat that was given up: a machine that kept its seat is simply not ready yet. */
function isWaking({ world }: Draft, restoring: boolean): boolean {
  const before = world.set.status?.phase;
  const fromSleep = before === "Suspended" || before === "Suspending";
  if (restoring && fromSleep) return true;
  const main = machineOf(world, world.members.main);
  if (main === undefined) return before === "Waking" || fromSleep;
  if (main.awake || main.asleep) return false;
  return before === "Waking" || (fromSleep && main.restoreMarked && !main.sleepKey);
}

/** The machine of a released seat is back, or finds no place to come back to. */
function finishWake(draft: Draft, phase: SetPhase): void {
  const { set } = draft.world;
  const main = machineOf(draft.world, draft.world.members.main);
  const hint = set.metadata.annotations?.[setAnnotation.hibernatedOnNode];
  if (phase === "Waking" && main?.unschedulable) {
    draft.trouble("WakeNoCapacity", `${main.podName}: ${main.unschedulable}`);
    const before = set.status?.conditions?.find(({ type }) => type === "Degraded");
    if (before?.reason !== "WakeNoCapacity")
      draft.do({ kind: "count", what: { metric: "wakeUnschedulable" } });
  }
  if (!main?.awake || hint === undefined) return;
  const placement = main.node === hint ? "hint-node" : "pool";
  draft.do(
    { kind: "annotateSet", wanted: { [setAnnotation.hibernatedOnNode]: null } },
    { kind: "count", what: { metric: "wake", placement } },
  );
}
