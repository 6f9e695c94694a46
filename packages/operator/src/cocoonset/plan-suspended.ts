/**
 * The set is to sleep. Every managed machine gets the key; when each of them sleeps and its copy is proven, the set is
 * Suspended. With `release` the pods then go: first their names and the node are noted, then the digests, then the pods.
 */
import { annotation, extendDeleteList, setAnnotation, writeDeleteList } from "@cocoon/contract";
import type { ConditionReport, SetPhase } from "@cocoon/contract";
import { neverLived, type Machine } from "../machine.ts";
import type { Draft, SetPlan } from "./draft.ts";
import type { Member } from "./members.ts";
import { isLeaving, machineOf } from "./phase.ts";
import { bootsFresh } from "./plan-creation.ts";
import { planReleased } from "./plan-leftovers.ts";
import { requiredNode } from "./pod-template.ts";
import { proveAsleep } from "./proof.ts";
import { planSleepKeys } from "./wishes.ts";

/** After this long a suspension that is not complete is reported; it goes on all the same. */
const suspendBudgetMs = 10 * 60_000;

export function planSuspended(draft: Draft): SetPlan {
  const { world } = draft;
  const living = world.machines.filter((machine) => !machine.terminating);
  for (const machine of living.filter(({ role }) => role === "warm"))
    draft.do({ kind: "deletePod", machine, why: "the set is suspended and needs no spare machines" });
  const managed = living.filter(({ vm, role }) => vm.managed && role !== undefined && role !== "warm");
  const useless = managed.filter((machine) => cannotBoot(draft, machine));
  for (const machine of useless)
    draft.do({
      kind: "deletePod",
      machine,
      why: "it cannot start any more, and there is nothing of it to keep",
    });
  const sleepers = managed.filter((machine) => !useless.includes(machine));
  planReleased(draft);
  const mainSettled = planAbsentMain(draft);
  planSleepKeys(draft, sleepers, { suspended: true, leaving: false });
  const waiting = sleepers.filter(
    (machine) => !machine.failed && !(machine.asleep && proveAsleep(draft, machine)),
  );
  const allAsleep = mainSettled && waiting.length === 0;
  const released = world.set.spec.hibernatePolicy === "release";
  const phase = allAsleep && released ? planRelease(draft, sleepers) : allAsleep ? "Suspended" : "Suspending";
  draft.conditions.push(suspendedCondition(draft, phase, waiting));
  return draft.finish(phase);
}

/** A fork that was not made before its source fell asleep, or a main agent that waits for a node nobody wants. */
function cannotBoot({ world }: Draft, machine: Machine): boolean {
  if (machine.failed) return false;
  const wanted = world.set.spec.nodeName ?? "";
  // Without a node there is nothing of it anywhere but its copy.
  const misplaced = machine.role === "main" && machine.node === "" && requiredNode(machine.pod) !== wanted;
  return misplaced || (machine.vm.forkFrom !== "" && neverLived(machine));
}

/** False while the main agent is neither there nor known to sleep. */
function planAbsentMain(draft: Draft): boolean {
  const { world, remembered } = draft;
  const { main } = world.members;
  if (machineOf(world, main)) return true;
  if (world.set.spec.hibernatePolicy === "release") return true;
  if (isLeaving(world, main)) return false;
  const memory = remembered.get(main.vmName);
  if (memory?.asleep && memory.snapshotDigest !== "") return true; // it sleeps without a seat
  const tag = draft.tag(main.vmName);
  if (!tag) return false;
  if (tag.kind === "there" && !(memory?.awake && memory.snapshotDigest === tag.digest)) {
    draft.digests.set(main.vmName, tag.digest);
    return true;
  }
  if (tag.kind === "there") {
    // It woke from that copy and went on, then its pod was deleted: there is nothing that sleeps.
    draft.do({ kind: "dropSleeping", vmName: main.vmName, digest: tag.digest });
    draft.digests.delete(main.vmName);
  }
  if (bootsFresh(draft, main)) createAsleep(draft, main);
  return false;
}

/** A set that was created suspended boots once, and sleeps then. */
function createAsleep(draft: Draft, main: Member): void {
  const { set, legacyKeys } = draft.world;
  const node = set.spec.nodeName ?? "";
  const placement = node === "" ? { kind: "anywhere" as const } : { kind: "required" as const, node };
  draft.do({
    kind: "createPod",
    member: main,
    wishes: { placement, restore: false, sleep: "suspend", legacyKeys },
  });
}

function planRelease(draft: Draft, sleepers: readonly Machine[]): SetPhase {
  const { set, members } = draft.world;
  const leaving = sleepers.filter((machine) => !machine.failed);
  if (leaving.length === 0) return "Suspended";
  const main = leaving.find((machine) => machine.podName === members.main.podName);
  const names = extendDeleteList(
    set.metadata.annotations,
    leaving.map((machine) => machine.vm.vmName),
  );
  draft.do(
    {
      kind: "annotateSet",
      wanted: {
        [setAnnotation.deleteVmNames]: writeDeleteList(names),
        ...(main && main.node !== "" ? { [setAnnotation.hibernatedOnNode]: main.node } : {}),
      },
    },
    { kind: "persistStatus" },
  );
  for (const machine of leaving)
    draft.do(
      { kind: "changePod", machine, annotations: { [annotation.keepSnapshotOnDelete]: "true" } },
      { kind: "deletePod", machine, why: "its machine sleeps and the set gives its seats up" },
      { kind: "count", what: { metric: "seatReleased" } },
    );
  return "Suspending";
}

function suspendedCondition(draft: Draft, phase: SetPhase, waiting: readonly Machine[]): ConditionReport {
  const { set, now } = draft.world;
  const base = { type: "Suspended", observedGeneration: draft.generation };
  if (phase === "Suspended")
    return { ...base, status: "True", reason: "AllAsleep", message: "every machine sleeps" };
  const names = waiting.map((machine) => machine.podName).join(", ");
  const before = set.status?.conditions?.find(({ type }) => type === "Suspended");
  const since = before?.status === "Unknown" ? Date.parse(before.lastTransitionTime) : now.getTime();
  const leftMs = since + suspendBudgetMs - now.getTime();
  if (leftMs > 0) draft.lookAgain(leftMs);
  else
    draft.trouble(
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
  const shown = draft.world.set.status?.conditions?.some(({ type }) => type === "Suspended");
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
