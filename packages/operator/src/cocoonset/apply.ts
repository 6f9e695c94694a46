/** Does what a plan says, one write each, in order. Everything may be repeated. */
import { finalizer, type CocoonSet } from "@cocoon/contract";
import { isFault, messageOf, type Abortable, type Logger } from "@cocoon/core";
import { keyOf, type Pod } from "@cocoon/kube";
import { addFinalizer, annotationChanges, referenceTo, removeFinalizer } from "@cocoon/kube/controller";
import { cocoonSets } from "../kinds.ts";
import type { Machine } from "../machine.ts";
import { overlayClient } from "../overlay-client.ts";
import type { Action, Counted, Texts } from "./draft.ts";
import { keyOfSet } from "./members.ts";
import type { SetParts } from "./parts.ts";
import { buildPod } from "./pod-template.ts";

export interface ApplyContext extends Abortable {
  readonly parts: SetParts;
  readonly set: CocoonSet;
  readonly log: Logger;
  /** Writes the status that belongs to this plan. */
  readonly persistStatus: () => Promise<void>;
}

const createsAtOnce = 8;

/** Whether anything was changed that is worth another look. */
export async function applyActions(context: ApplyContext, actions: readonly Action[]): Promise<boolean> {
  let changed = false;
  for (let index = 0; index < actions.length;) {
    const batch = batchAt(actions, index);
    const results = await Promise.all(batch.map((action) => applyAction(context, action)));
    changed ||= results.some(Boolean);
    index += batch.length;
  }
  return changed;
}

/** Pods are created several at a time; everything else keeps its order. */
function batchAt(actions: readonly Action[], index: number): readonly Action[] {
  const rest = actions.slice(index, index + createsAtOnce);
  const end = rest.findIndex((action) => action.kind !== "createPod");
  return end === 0 ? rest.slice(0, 1) : rest.slice(0, end < 0 ? rest.length : end);
}

async function applyAction(context: ApplyContext, action: Action): Promise<boolean> {
  const { parts, signal, set } = context;
  switch (action.kind) {
    case "addFinalizer":
      await addFinalizer(finalizerTarget(context), { signal });
      return true;
    case "removeFinalizer":
      await removeFinalizer(finalizerTarget(context), { signal });
      return true;
    case "deleteSet":
      await parts.sets.delete(set, { signal, propagationPolicy: "Background" });
      return true;
    case "annotateSet":
      return annotateSet(context, action.wanted);
    case "persistStatus":
      await context.persistStatus();
      return false;
    case "changePod":
      return changePod(context, action);
    case "createPod":
      return createPod(context, buildPod(set, action.member, action.wishes));
    case "deletePod":
      return deletePod(context, action.machine, action.why);
    case "tell":
      parts.events.record(referenceTo(cocoonSets, set), action.happening);
      return false;
    case "count":
      count(context, action.what);
      return false;
    default:
      await applyToRegistry(context, action);
      return true;
  }
}

type RegistryAction = Extract<
  Action,
  { kind: "dropSleeping" | "releaseSleeping" | "settleSnapshots" | "expireSnapshots" }
>;

async function applyToRegistry(context: ApplyContext, action: RegistryAction): Promise<void> {
  const { snapshots, now } = context.parts;
  const { signal, log } = context;
  if (action.kind === "dropSleeping") {
    await snapshots.drop(action.vmName, action.digest, { signal });
    log.info({ vm: action.vmName, digest: action.digest }, "copy of a woken machine dropped");
  } else if (action.kind === "releaseSleeping") {
    const digest = await snapshots.release(action.vmName, now(), { signal });
    log.info({ vm: action.vmName, digest }, "copy of a released machine renamed");
  } else if (action.kind === "expireSnapshots") await expireSnapshots(context, action);
  else await settleSnapshots(context, action);
}

async function expireSnapshots(
  { parts, set, signal, log }: ApplyContext,
  { vmNames, afterMs, keep }: Extract<Action, { kind: "expireSnapshots" }>,
): Promise<void> {
  try {
    for (const vmName of vmNames) {
      const tags = await parts.snapshots.expire({ vmName, afterMs, keep, now: parts.now() }, { signal });
      if (tags.length > 0) log.info({ vm: vmName, tags }, "snapshots expired");
    }
  } catch (error) {
    if (signal.aborted) throw error;
    // Old snapshots can wait for the next time; the machines cannot.
    log.warn({ error: messageOf(error) }, "snapshots could not be looked through");
  }
  parts.expiredAt.set(set.metadata.uid ?? "", parts.now().getTime());
}

/** A registry that stays away does not hold a deletion up for ever; what is left then is told. */
const settleBudgetMs = 10 * 60_000;

async function settleSnapshots(
  { parts, set, signal, log }: ApplyContext,
  action: Extract<Action, { kind: "settleSnapshots" }>,
): Promise<void> {
  for (const vmName of action.vmNames) {
    try {
      await parts.snapshots.settle(
        { vmName, keep: action.keep.includes(vmName), purge: action.purge },
        { signal },
      );
    } catch (error) {
      const deletedAt = Date.parse(set.metadata.deletionTimestamp ?? "");
      if (signal.aborted || parts.now().getTime() < deletedAt + settleBudgetMs) throw error;
      log.error({ vm: vmName, error: messageOf(error) }, "snapshots left behind");
      parts.events.record(referenceTo(cocoonSets, set), {
        type: "Warning",
        reason: "SnapshotsLeftBehind",
        message: `snapshots of ${vmName} could not be settled: ${messageOf(error)}`,
      });
    }
  }
}

/** Patches go through the overlay, so that the next look sees them. */
function finalizerTarget({ parts, set }: ApplyContext) {
  const client = overlayClient(parts.client, parts.sets);
  return { client, type: cocoonSets, object: set, finalizer: finalizer.cocoonSet };
}

async function annotateSet({ parts, set, signal }: ApplyContext, wanted: Texts): Promise<boolean> {
  const current = parts.sets.get(keyOf(set)) ?? set;
  const annotations = annotationChanges(current, wanted);
  if (!annotations) return false;
  const body = { metadata: { uid: set.metadata.uid, annotations } };
  await parts.sets.patch({ key: keyOf(set), patch: { type: "merge", body } }, { signal });
  return true;
}

async function changePod(
  { parts, signal, log }: ApplyContext,
  { machine, annotations, labels }: Extract<Action, { kind: "changePod" }>,
): Promise<boolean> {
  const key = keyOf(machine.pod);
  const current = parts.pods.get(key) ?? machine.pod;
  const changes = annotationChanges(current, annotations);
  if (!changes && !labels) return false;
  const { uid } = machine.pod.metadata;
  const body = {
    metadata: { uid, ...(changes ? { annotations: changes } : {}), ...(labels ? { labels } : {}) },
  };
  try {
    await parts.pods.patch({ key, patch: { type: "merge", body } }, { signal });
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
  }
  log.debug({ pod: machine.podName, changes }, "pod changed");
  return true;
}

async function createPod({ parts, signal, log }: ApplyContext, pod: Pod): Promise<boolean> {
  try {
    await parts.pods.ensure(pod, { signal });
    log.info({ pod: pod.metadata.name }, "pod created");
  } catch (error) {
    // Somebody else's: the overlay shows it now, and the next look reports the conflict.
    if (!isFault(error, "alreadyExists")) throw error;
  }
  return true;
}

async function deletePod(
  { parts, signal, log }: ApplyContext,
  machine: Machine,
  why: string,
): Promise<boolean> {
  const current = parts.pods.get(keyOf(machine.pod));
  if (!current || current.metadata.deletionTimestamp || current.metadata.uid !== machine.pod.metadata.uid)
    return false;
  await parts.pods.delete(current, { signal });
  log.info({ pod: machine.podName, why }, "pod deleted");
  return true;
}

function count({ parts, set }: ApplyContext, what: Counted): void {
  const { namespace, set: cocoonset } = keyOfSet(set);
  const labels = { namespace, cocoonset };
  const { metrics } = parts;
  switch (what.metric) {
    case "rebuild":
      return metrics.subAgentRebuild.inc(labels);
    case "deadLetter":
      return metrics.subAgentDeadLetter.inc(labels);
    case "seatReleased":
      return metrics.seatsReleased.inc(labels);
    case "wakeUnschedulable":
      return metrics.seatWakeUnschedulable.inc(labels);
    case "wake":
      return metrics.seatWakes.inc({ ...labels, placement: what.placement });
  }
}
