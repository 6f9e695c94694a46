/** Does what a plan says, one write each, in order. Everything may be repeated. */
import { finalizer, readCocoonHibernation, type CocoonHibernation, type CocoonSet } from "@cocoon/contract";
import { Fault, ignoreFault, type Abortable, type Logger } from "@cocoon/core";
import { getKey, type Pod } from "@cocoon/kube";
import { addFinalizer, annotationChanges, referenceTo, removeFinalizer } from "@cocoon/kube/controller";
import { readHibernationRequest } from "../hibernation-request.ts";
import { cocoonHibernations, cocoonSets } from "../kinds.ts";
import { applyToRegistry } from "./apply-registry.ts";
import type { Action, Counted, Texts } from "./draft.ts";
import { getSetKey } from "./members.ts";
import type { SetParts } from "./parts.ts";
import { buildPod } from "./pod-template.ts";

export interface ApplyContext extends Abortable {
  readonly parts: SetParts;
  readonly set: CocoonSet;
  readonly log: Logger;
  /** Writes the status that belongs to this plan. */
  readonly persistStatus: () => Promise<void>;
}

interface Running extends ApplyContext {
  /** Versions of pods after our own changes in this plan, by name: those may still be deleted by version. */
  readonly versions: Map<string, string>;
  /** Resolves when the API server has the set; asked once in a plan. */
  readonly assertLiving: () => Promise<void>;
}

const podsAtOnce = 8;

/** Whether anything was changed that is worth another look. */
export async function applyActions(outer: ApplyContext, actions: readonly Action[]): Promise<boolean> {
  let living: Promise<void> | undefined;
  const assertLiving = () => (living ??= assertSetLives(outer));
  const context = { ...outer, versions: new Map<string, string>(), assertLiving };
  let changed = false;
  for (let index = 0; index < actions.length;) {
    const batch = batchAt(actions, index);
    const results = await Promise.all(batch.map((action) => applyAction(context, action)));
    changed ||= results.some(Boolean);
    index += batch.length;
  }
  return changed;
}

const batched: ReadonlySet<Action["kind"]> = new Set(["createPod", "deletePod"]);

/** Pods are created, and deleted, several at a time; everything else keeps its order. */
function batchAt(actions: readonly Action[], index: number): readonly Action[] {
  const rest = actions.slice(index, index + podsAtOnce);
  const [first] = rest;
  if (!first || !batched.has(first.kind)) return rest.slice(0, 1);
  const end = rest.findIndex(({ kind }) => kind !== first.kind);
  return end < 0 ? rest : rest.slice(0, end);
}

async function applyAction(context: Running, action: Action): Promise<boolean> {
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
      return createPod(context, buildPod(set, action.member, action.options));
    case "deletePod":
      return deletePod(context, action);
    case "emitEvent":
      parts.events.record(referenceTo(cocoonSets, set), action.event);
      return false;
    case "count":
      count(context, action.what);
      return false;
    default:
      await applyToRegistry(context, action);
      return true;
  }
}

function finalizerTarget({ parts, set }: ApplyContext) {
  const { client, sets: writes } = parts;
  return { client, writes, type: cocoonSets, object: set, finalizer: finalizer.cocoonSet };
}

async function annotateSet({ parts, set, signal }: ApplyContext, wanted: Texts): Promise<boolean> {
  const current = parts.sets.get(getKey(set)) ?? set;
  const annotations = annotationChanges(current, wanted);
  if (!annotations) return false;
  const body = { metadata: { uid: set.metadata.uid, annotations } };
  await parts.sets.patch({ key: getKey(set), patch: { type: "merge", body } }, { signal });
  return true;
}

async function changePod(
  { parts, signal, log, versions }: Running,
  { machine, annotations, labels, ifUnchanged, requestedBy }: Extract<Action, { kind: "changePod" }>,
): Promise<boolean> {
  const key = getKey(machine.pod);
  if (requestedBy) await assertRequested(parts, requestedBy, { signal });
  const current = parts.pods.get(key) ?? machine.pod;
  const changes = annotationChanges(current, annotations);
  if (!changes && !labels) return false;
  const { uid, resourceVersion } = machine.pod.metadata;
  const body = {
    metadata: { uid, ...(changes ? { annotations: changes } : {}), ...(labels ? { labels } : {}) },
  };
  // The version that the plan saw: a delete that follows must not rest on anything newer.
  const sameVersion = { ...body.metadata, resourceVersion: versions.get(machine.podName) ?? resourceVersion };
  const patch = { type: "merge", body: { metadata: ifUnchanged ? sameVersion : body.metadata } } as const;
  const changed = await ignoreFault("notFound", parts.pods.patch({ key, patch }, { signal }));
  if (ifUnchanged && changed) versions.set(machine.podName, changed.metadata.resourceVersion ?? "");
  log.debug({ pod: machine.podName, changes }, "pod changed");
  return true;
}

/**
 * A machine stays hibernated after its CocoonHibernation is gone. So a request that only the cache knows, from before etcd
 * was restored, must not hibernate it.
 */
async function assertRequested(
  { client }: SetParts,
  requestedBy: CocoonHibernation,
  { signal }: Abortable,
): Promise<void> {
  const live = await ignoreFault("notFound", client.get(cocoonHibernations, getKey(requestedBy), { signal }));
  const isSame = live?.metadata.uid === requestedBy.metadata.uid;
  if (!isSame || readHibernationRequest(readCocoonHibernation(live)) !== "sleep")
    throw new Fault(
      "unavailable",
      `the API server has no request to hibernate ${requestedBy.spec.podRef.name}; the cache is behind`,
    );
}

/**
 * A set that only the cache knows, from before etcd was restored, gets no pod: garbage collection would delete it as one
 * without an owner, and its node would take that for the end of the machine.
 */
async function assertSetLives({ parts, set, signal }: ApplyContext): Promise<void> {
  const live = await ignoreFault("notFound", parts.client.get(cocoonSets, getKey(set), { signal }));
  if (live?.metadata.uid !== set.metadata.uid)
    throw new Fault(
      "unavailable",
      `the API server has no CocoonSet ${set.metadata.name} with this uid; the cache is behind`,
    );
}

async function createPod({ parts, signal, log, assertLiving }: Running, pod: Pod): Promise<boolean> {
  await assertLiving();
  // Undefined: another owner's. The overlay shows it now, and the next round reports the conflict.
  const created = await ignoreFault("alreadyExists", parts.pods.ensure(pod, { signal }));
  if (created) log.info({ pod: pod.metadata.name }, "pod created");
  return true;
}

async function deletePod(
  { parts, signal, log, versions }: Running,
  { machine, why, ifUnchanged }: Extract<Action, { kind: "deletePod" }>,
): Promise<boolean> {
  const current = parts.pods.get(getKey(machine.pod));
  const { uid, resourceVersion = "" } = machine.pod.metadata;
  if (!current || current.metadata.deletionTimestamp || current.metadata.uid !== uid) return false;
  const version = versions.get(machine.podName) ?? resourceVersion;
  const preconditions = ifUnchanged ? { preconditions: { resourceVersion: version } } : {};
  await parts.pods.delete(current, { signal, ...preconditions });
  log.info({ pod: machine.podName, vm: machine.vm.vmName, why }, "pod deleted");
  return true;
}

function count({ parts, set }: ApplyContext, what: Counted): void {
  const { namespace, set: cocoonset } = getSetKey(set);
  const labels = { namespace, cocoonset };
  const { metrics } = parts;
  switch (what.metric) {
    case "rebuild":
      return metrics.subAgentRebuild.inc(labels);
    case "deadLetter":
      return metrics.subAgentDeadLetter.inc(labels);
    case "slotReleased":
      return metrics.slotsReleased.inc(labels);
    case "wakeUnschedulable":
      return metrics.slotWakeUnschedulable.inc(labels);
    case "wake":
      return metrics.slotWakes.inc({ ...labels, placement: what.placement });
  }
}
