/**
 * What to do next for one set. Pure: everything that was seen goes in, steps come out; after they have been done
 * everything is looked at again. Questions to the registry come out too, and are answered before anything is done.
 */
import { hasFinalizer } from "@cocoon/kube/controller";
import { finalizer, findNameProblems } from "@cocoon/contract";
import { parseDuration } from "@cocoon/core";
import { planBootFresh } from "./boot-fresh.ts";
import { Draft, type SetPlan } from "./draft.ts";
import { allMembers, getSetKey } from "./members.ts";
import { planDeletion } from "./plan-deletion.ts";
import { recordAbandoned } from "./plan-leftovers.ts";
import { planRunning } from "./plan-running.ts";
import { planSuspended } from "./plan-suspended.ts";
import { restingPhase } from "./phase.ts";
import { readExpiry, readSchedule, type Expiry } from "./desired-power.ts";
import { extendDeleteNames } from "./vm-names.ts";
import { retentionPeriodMs, type ObservedSet } from "./observed-set.ts";

export function planSet(observed: ObservedSet): SetPlan {
  const draft = new Draft(observed);
  const { set } = observed;
  if (set.metadata.deletionTimestamp !== undefined) return planDeletion(draft);
  if (set.spec.paused) return draft.finish(restingPhase(observed));
  const expiry = readExpiry(observed);
  if (expiry.leftMs !== undefined && expiry.leftMs > 0) draft.requeueAfter(expiry.leftMs);
  const why = explainDeletion(draft, expiry);
  if (why !== undefined) {
    draft.do({ kind: "deleteSet", why });
    return draft.finish(restingPhase(observed));
  }
  if (!hasFinalizer(set, finalizer.cocoonSet)) draft.do({ kind: "addFinalizer" });
  if (recordAbandoned(draft)) return draft.finish(set.status?.phase ?? "Pending");
  checkNames(draft);
  planBootFresh(draft);
  planRetention(draft);
  const schedule = readSchedule(observed);
  if (schedule.nextMs !== undefined) draft.requeueAfter(schedule.nextMs);
  const suspended = set.spec.suspend === true || schedule.asleep || expiry.expired;
  return suspended ? planSuspended(draft) : planRunning(draft);
}

/** Why the set is to be deleted now; undefined while it is not. */
function explainDeletion(draft: Draft, { expired }: Expiry): string | undefined {
  const { ttl, expire } = draft.observed.set.spec;
  if (hasExpired(draft)) return `its time to live (${ttl}) is over`;
  return expired && expire?.action === "Delete" ? `spec.expire.at (${expire.at}) has passed` : undefined;
}

function hasExpired(draft: Draft): boolean {
  const { set, now } = draft.observed;
  const born = Date.parse(set.metadata.creationTimestamp ?? "");
  if (set.spec.ttl === undefined || Number.isNaN(born)) return false;
  const leftMs = born + parseDuration(set.spec.ttl) - now.getTime();
  if (leftMs > 0) draft.requeueAfter(leftMs);
  return leftMs <= 0;
}

/** Only where it is asked for: looking through snapshots costs calls to the registry. */
function planRetention(draft: Draft): void {
  const { set, members, retentionDue } = draft.observed;
  const { after, keep = 0 } = set.spec.retention ?? {};
  if (after === undefined) return;
  draft.requeueAfter(retentionPeriodMs);
  if (!retentionDue) return;
  const names = extendDeleteNames(
    draft,
    allMembers(members).map(({ vmName }) => vmName),
  );
  draft.do({ kind: "expireSnapshots", vmNames: names, afterMs: parseDuration(after), keep });
}

/** What admission refuses; an object that came in without it says so instead of failing pod by pod. */
function checkNames(draft: Draft): void {
  const { set } = draft.observed;
  const { namespace, set: name } = getSetKey(set);
  const toolboxes = (set.spec.toolboxes ?? []).map((toolbox) => toolbox.name);
  const { replicas } = set.spec.agent;
  const problems = findNameProblems({ namespace, name, replicas, toolboxes });
  const twice = toolboxes.filter((each, index) => toolboxes.indexOf(each) !== index);
  for (const message of [...problems, ...twice.map((each) => `toolbox "${each}" is named twice`)])
    draft.problem("InvalidNames", message);
}
