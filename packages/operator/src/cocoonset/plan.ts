/**
 * What to do next for one set. Pure: everything that was seen goes in, steps come out; after they have been done
 * everything is looked at again. Questions to the registry come out too, and are answered before anything is done.
 */
import { hasFinalizer } from "@cocoon/kube/controller";
import { extendDeleteList, finalizer, nameTroublesOfSet } from "@cocoon/contract";
import { parseDuration } from "@cocoon/core";
import { Draft, type SetPlan } from "./draft.ts";
import { allMembers, keyOfSet } from "./members.ts";
import { planDeletion } from "./plan-deletion.ts";
import { noteForsaken } from "./plan-leftovers.ts";
import { planRunning } from "./plan-running.ts";
import { planSuspended } from "./plan-suspended.ts";
import { restingPhase } from "./phase.ts";
import { readSchedule } from "./wishes.ts";
import { retentionPeriodMs, type World } from "./world.ts";

export function planSet(world: World): SetPlan {
  const draft = new Draft(world);
  const { set } = world;
  if (set.metadata.deletionTimestamp !== undefined) return planDeletion(draft);
  if (set.spec.paused) return draft.finish(restingPhase(world));
  if (hasExpired(draft)) {
    draft.do({ kind: "deleteSet", why: `its time to live (${set.spec.ttl}) is over` });
    return draft.finish(restingPhase(world));
  }
  if (!hasFinalizer(set, finalizer.cocoonSet)) draft.do({ kind: "addFinalizer" });
  if (noteForsaken(draft)) return draft.finish(set.status?.phase ?? "Pending");
  noteNameTroubles(draft);
  planRetention(draft);
  const schedule = readSchedule(world);
  if (schedule.nextMs !== undefined) draft.lookAgain(schedule.nextMs);
  const suspended = set.spec.suspend === true || schedule.asleep;
  return suspended ? planSuspended(draft) : planRunning(draft);
}

function hasExpired(draft: Draft): boolean {
  const { set, now } = draft.world;
  const born = Date.parse(set.metadata.creationTimestamp ?? "");
  if (set.spec.ttl === undefined || Number.isNaN(born)) return false;
  const leftMs = born + parseDuration(set.spec.ttl) - now.getTime();
  if (leftMs > 0) draft.lookAgain(leftMs);
  return leftMs <= 0;
}

/** Only where it is asked for: looking through snapshots costs calls to the registry. */
function planRetention(draft: Draft): void {
  const { set, members, retentionDue } = draft.world;
  const { after, keep = 0 } = set.spec.retention ?? {};
  if (after === undefined) return;
  draft.lookAgain(retentionPeriodMs);
  if (!retentionDue) return;
  const names = extendDeleteList(
    set.metadata.annotations,
    allMembers(members).map(({ vmName }) => vmName),
  );
  draft.do({ kind: "expireSnapshots", vmNames: names, afterMs: parseDuration(after), keep });
}

/** What admission refuses; an object that came in without it says so instead of failing pod by pod. */
function noteNameTroubles(draft: Draft): void {
  const { set } = draft.world;
  const { namespace, set: name } = keyOfSet(set);
  const toolboxes = (set.spec.toolboxes ?? []).map((toolbox) => toolbox.name);
  const { replicas } = set.spec.agent;
  const troubles = nameTroublesOfSet({ namespace, name, replicas, toolboxes });
  const twice = toolboxes.filter((each, index) => toolboxes.indexOf(each) !== index);
  for (const message of [...troubles, ...twice.map((each) => `toolbox "${each}" is named twice`)])
    draft.trouble("InvalidNames", message);
}
