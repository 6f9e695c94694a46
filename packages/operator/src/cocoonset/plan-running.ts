/** The set is to run: its main agent first, then toolboxes and sub-agents, and what earlier steps left to do. */
import { setAnnotation, type SetPhase } from "@cocoon/contract";
import type { Machine } from "../pod-machine.ts";
import type { Draft, SetPlan } from "./draft.ts";
import { isTerminating, findMachine, restingPhase } from "./phase.ts";
import { createFrom, preferred, planStart, required, waitsForHolder } from "./plan-creation.ts";
import { releaseMachines, planLeftovers } from "./plan-leftovers.ts";
import { planMigration, type Migration } from "./plan-migration.ts";
import { planSubAgents, planToolboxes, planWarm } from "./plan-members.ts";
import { awakeCondition } from "./plan-suspended.ts";
import { proveAsleep } from "./proof.ts";
import { requiredNode } from "./pod-template.ts";
import { Rollout } from "./rollout.ts";
import { Rebuilds } from "./rebuilds.ts";
import { planHibernateKeys } from "./desired-power.ts";

export function planRunning(draft: Draft): SetPlan {
  const { observed } = draft;
  awakeCondition(draft);
  const living = observed.machines.filter(({ terminating, role }) => !terminating && role !== undefined);
  for (const machine of living) if (machine.asleep) proveAsleep(draft, machine);
  const migration = planMigration(draft);
  planHibernateKeys(
    draft,
    living.filter(({ role }) => role !== "warm"),
    { suspended: false, leaving: migration.leaving },
  );
  const tools = { rollout: new Rollout(draft), rebuilds: new Rebuilds(draft) };
  const restoring = planMain(draft, migration, tools);
  const surplus = [...planToolboxes(draft, tools), ...planSubAgents(draft, tools), ...planWarm(draft)];
  releaseMachines(draft, surplus, "the spec no longer requests it");
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
  const { observed } = draft;
  const { main } = observed.members;
  noteDuplicates(draft);
  const machine = findMachine(observed, main);
  if (!machine) return isTerminating(observed, main) ? false : planNewMain(draft, migration);
  if (migration.busy) return false;
  if (machine.failed) {
    noteFailure(draft, machine);
    rebuilds.considerMain(main, machine);
    return false;
  }
  const misplaced = machine.node === "" && requiredNode(machine.pod) !== migration.pinnedTo;
  if (misplaced && !waitsForHolder(draft, machine))
    draft.deletePod(machine, "it waits for a node that spec.nodeName no longer names");
  else rollout.consider(main, machine);
  return false;
}

function planNewMain(draft: Draft, migration: Migration): boolean {
  const { observed } = draft;
  const { main } = observed.members;
  if (observed.sourceProblem !== "") {
    draft.problem("SourceNotGranted", observed.sourceProblem);
    return false;
  }
  const start = planStart(draft, main);
  if (start.kind === "wait") return false;
  const hint = observed.set.metadata.annotations?.[setAnnotation.hibernatedOnNode] ?? "";
  const restore = start.kind === "restore";
  const free = restore ? preferred(hint || start.node) : required(start.node);
  // The node that holds its VM comes first: a machine is moved from there like any other.
  const isHeld = !restore && start.node !== "";
  const placement = migration.pinnedTo === "" || isHeld ? free : required(migration.pinnedTo);
  createFrom(draft, main, { placement, restore });
  return restore;
}

function noteDuplicates(draft: Draft): void {
  const { machines, members } = draft.observed;
  const others = machines.filter(({ role, podName }) => role === "main" && podName !== members.main.podName);
  for (const { podName } of others)
    draft.problem("DuplicateMain", `pod ${podName} is labelled main too; remove it or its labels`);
}

function noteFailure(draft: Draft, machine: Machine): void {
  const reported = machine.lifecycle.state === "failed";
  draft.problem(
    reported ? "PodLifecycleFailed" : "MainAgentFailed",
    `${machine.podName}: ${machine.lifecycle.message || machine.pod.status?.message || machine.pod.status?.phase || "failed"}`,
  );
}

interface Movements {
  readonly migration: Migration;
  readonly restoring: boolean;
}

function runningPhase(draft: Draft, { migration, restoring }: Movements): SetPhase {
  const resting = restingPhase(draft.observed, draft.waking);
  if (migration.busy) return "Migrating";
  if (resting === "Failed") return "Failed";
  return isWaking(draft, restoring) ? "Waking" : resting;
}

/** Only the wake of a machine whose pod was released: one that kept its pod is simply not ready yet. */
function isWaking({ observed }: Draft, restoring: boolean): boolean {
  const before = observed.set.status?.phase;
  const fromSleep = before === "Suspended" || before === "Suspending";
  if (restoring && fromSleep) return true;
  const main = findMachine(observed, observed.members.main);
  if (main === undefined) return before === "Waking" || fromSleep;
  if (main.awake || main.asleep) return false;
  return before === "Waking" || (fromSleep && main.restoreMarked && !main.hibernate);
}

/** A machine whose pod was released is awake again, or finds no node. */
function finishWake(draft: Draft, phase: SetPhase): void {
  const { set } = draft.observed;
  const main = findMachine(draft.observed, draft.observed.members.main);
  const hint = set.metadata.annotations?.[setAnnotation.hibernatedOnNode];
  if (phase === "Waking" && main?.unschedulable) {
    draft.problem("WakeNoCapacity", `${main.podName}: ${main.unschedulable}`);
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
