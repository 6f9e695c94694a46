/**
 * The set is to sleep. Every managed machine gets the key; when each of them sleeps and its copy is proven, the set is
 * Suspended. With `release` the pods then go: first their names and the node are noted, then the digests, then the pods.
 */
import { annotation, setAnnotation } from "@cocoon/contract";
import type { ConditionReport, SetPhase } from "@cocoon/contract";
import { neverLived, type Machine } from "../pod-machine.ts";
import type { Draft, SetPlan } from "./draft.ts";
import type { Member } from "./members.ts";
import { isTerminating, findMachine } from "./phase.ts";
import { mayBootFresh, placeFresh, required, waitsForHolder } from "./plan-creation.ts";
import { extendDeleteNames, recordNames } from "./vm-names.ts";
import { planReleased } from "./plan-leftovers.ts";
import { requiredNode } from "./pod-template.ts";
import { proveAsleep } from "./proof.ts";
import { planHibernateKeys } from "./desired-power.ts";

/** After this long a suspension that is not complete is reported; it goes on all the same. */
const suspendBudgetMs = 10 * 60_000;

export function planSuspended(draft: Draft): SetPlan {
  const { observed } = draft;
  const living = observed.machines.filter((machine) => !machine.terminating);
  for (const machine of living.filter(({ role }) => role === "warm"))
    draft.deletePod(machine, "the set is suspended and needs no warm machines");
  const managed = living.filter(({ vm, role }) => vm.managed && role !== undefined && role !== "warm");
  const useless = managed.filter((machine) => cannotBoot(draft, machine));
  for (const machine of useless)
    draft.deletePod(machine, "it cannot start any more, and has no state to keep");
  const sleepers = managed.filter((machine) => !useless.includes(machine));
  planReleased(draft);
  const mainSettled = planAbsentMain(draft);
  planHibernateKeys(draft, sleepers, { suspended: true, leaving: false });
  const waiting = sleepers.filter(
    (machine) => !machine.failed && !(machine.asleep && proveAsleep(draft, machine)),
  );
  const allAsleep = mainSettled && waiting.length === 0;
  const released = observed.set.spec.hibernatePolicy === "release";
  const phase = allAsleep && released ? planRelease(draft, sleepers) : allAsleep ? "Suspended" : "Suspending";
  draft.conditions.push(suspendedCondition(draft, phase, waiting));
  return draft.finish(phase);
}

/** A fork that was not made before its source fell asleep, or a main agent that waits for a node that is not wanted. */
function cannotBoot(draft: Draft, machine: Machine): boolean {
  const { observed } = draft;
  if (machine.failed || waitsForHolder(draft, machine)) return false;
  const wanted = observed.set.spec.nodeName ?? "";
  // Without a node there is nothing of it anywhere but its copy.
  const misplaced = machine.role === "main" && machine.node === "" && requiredNode(machine.pod) !== wanted;
  return misplaced || (machine.vm.forkFrom !== "" && neverLived(machine));
}

/** False while the main agent is neither there nor known to sleep. */
function planAbsentMain(draft: Draft): boolean {
  const { observed, remembered } = draft;
  const { main } = observed.members;
  if (findMachine(observed, main)) return true;
  if (observed.set.spec.hibernatePolicy === "release") return true;
  if (isTerminating(observed, main)) return false;
  const memory = remembered.get(main.vmName);
  if (memory?.asleep && memory.snapshotDigest !== "") return true; // hibernated without a pod
  const tag = draft.tag(main.vmName);
  if (!tag) return false;
  if (tag.kind === "there") {
    const ranSince = memory?.awake === true && memory.snapshotDigest === tag.digest;
    if (!ranSince) {
      draft.digests.set(main.vmName, tag.digest);
      return true;
    }
    releaseOld(draft, main, tag.digest);
  }
  if (mayBootFresh(draft, main)) createAsleep(draft, main);
  return false;
}

/** The machine ran after this snapshot until its pod was deleted: nothing of it is hibernated. */
function releaseOld(draft: Draft, { vmName }: Member, digest: string): void {
  draft.do({ kind: "releaseSnapshot", vmName, digest });
  draft.digests.delete(vmName);
}

/** A set that was created suspended boots once, and sleeps then. */
function createAsleep(draft: Draft, main: Member): void {
  const start = placeFresh(draft, main);
  if (start.kind !== "fresh") return;
  const { set, legacyKeys } = draft.observed;
  const placement = required(start.node || (set.spec.nodeName ?? ""));
  draft.do({
    kind: "createPod",
    member: main,
    options: { placement, restore: false, sleep: "suspend", legacyKeys },
  });
}

function planRelease(draft: Draft, sleepers: readonly Machine[]): SetPhase {
  const { members } = draft.observed;
  const leaving = sleepers.filter((machine) => !machine.failed);
  if (leaving.length === 0) return "Suspended";
  const main = leaving.find((machine) => machine.podName === members.main.podName);
  const deleted = extendDeleteNames(
    draft,
    leaving.map((machine) => machine.vm.vmName),
  );
  const node = main && main.node !== "" ? { [setAnnotation.hibernatedOnNode]: main.node } : {};
  const { wanted } = recordNames(draft, { deleted });
  draft.do({ kind: "annotateSet", wanted: { ...wanted, ...node } }, { kind: "persistStatus" });
  for (const machine of leaving) {
    const annotations = { [annotation.keepSnapshotOnDelete]: "true" };
    draft.do({ kind: "changePod", machine, annotations, ifUnchanged: true });
    draft.deletePod(machine, "its machine is hibernated and spec.hibernatePolicy is release");
    draft.do({ kind: "count", what: { metric: "slotReleased" } });
  }
  return "Suspending";
}

function suspendedCondition(draft: Draft, phase: SetPhase, waiting: readonly Machine[]): ConditionReport {
  const { set, now } = draft.observed;
  const base = { type: "Suspended", observedGeneration: draft.generation };
  if (phase === "Suspended")
    return { ...base, status: "True", reason: "AllAsleep", message: "every machine sleeps" };
  const names = waiting.map((machine) => machine.podName).join(", ");
  const before = set.status?.conditions?.find(({ type }) => type === "Suspended");
  const since = before?.status === "Unknown" ? Date.parse(before.lastTransitionTime) : now.getTime();
  const leftMs = since + suspendBudgetMs - now.getTime();
  if (leftMs > 0) draft.requeueAfter(leftMs);
  else
    draft.problem(
      "SuspendTimedOut",
      `not asleep after ${suspendBudgetMs / 60_000} minutes: ${names || "main agent"}`,
    );
  return {
    ...base,
    status: "Unknown",
    reason: "WaitingForMachines",
    message: `waiting for ${names || "the main agent"}`,
  };
}

/** For a set that is not (any more) to sleep; only where the condition was ever shown. */
export function awakeCondition(draft: Draft): void {
  const shown = draft.observed.set.status?.conditions?.some(({ type }) => type === "Suspended");
  if (!shown) return;
  const observedGeneration = draft.generation;
  draft.conditions.push({
    type: "Suspended",
    status: "False",
    reason: "NotWanted",
    message: "",
    observedGeneration,
  });
}
