/**
 * What to do next for one CocoonHibernation. Pure.
 *
 *   request  observed on the pod                              phase
 *   sleep    hibernated for the newest request, snapshot there Hibernated
 *            failed                                            Failed, with the kubelet's message
 *            too late                                          Failed
 *            otherwise                                         Hibernating
 *   wake     ready for the newest request, running             Active
 *            the set is suspended                              Pending
 *            failed, too late                                  Failed
 *            otherwise                                         Waking
 *
 * Failed stays until the spec changes, the annotation `retry` gets a new text, or the machine gets there after all.
 * The key is written here only for pods without a set: a set's controller writes it for its own pods.
 */
import {
  annotation,
  finalizer,
  findCondition,
  hibernationAnnotation,
  legacyAnnotation,
  type CocoonHibernationStatus,
  type HibernationPhase,
} from "@cocoon/contract";
import { parseDuration } from "@cocoon/core";
import { hasFinalizer } from "@cocoon/kube/controller";
import type { Event, Texts } from "../cocoonset/draft.ts";
import { readySince, type Machine } from "../pod-machine.ts";
import { isBridged, readHibernationRequest } from "../hibernation-request.ts";
import {
  computeDuration,
  computeEvents,
  computeStatus,
  type Duration,
  type Finding,
  type ObservedHibernation,
} from "./status.ts";

export interface HibernationPlan {
  readonly addFinalizer: boolean;
  readonly removeFinalizer: boolean;
  /** Annotations of the pod; only for pods that no set owns. */
  readonly podChanges: Texts | undefined;
  /** The registry has to be asked before this plan can be complete. */
  readonly needsLookup: boolean;
  /** The copy that the machine woke from, if it is still to be dropped. */
  readonly drop: string | undefined;
  readonly status: CocoonHibernationStatus;
  readonly events: readonly Event[];
  readonly duration: Duration | undefined;
  readonly requeueAfterMs: number | undefined;
  readonly retry: boolean;
}

const defaultBudgetMs = { sleep: 3 * 60_000, wake: 5 * 60_000 };
/** The kubelet drops the copy itself; what is left after this time is ours to drop. */
const graceMs = 30_000;

export function planHibernation(observed: ObservedHibernation): HibernationPlan {
  const { hibernation } = observed;
  if (hibernation.metadata.deletionTimestamp !== undefined) return planDeletion(observed);
  const finding = find(observed);
  return buildPlan(observed, finding, {
    addFinalizer: !hasFinalizer(hibernation, finalizer.cocoonHibernation),
  });
}

/** The snapshot stays, and so does the sleep, unless the object requests a wake first. */
function planDeletion(observed: ObservedHibernation): HibernationPlan {
  const { hibernation, machine } = observed;
  const mustWake =
    readHibernationRequest(hibernation) === "wake" &&
    machine !== undefined &&
    !machine.awake &&
    !observed.setSuspended;
  const finding: Finding = mustWake
    ? findWake(observed, machine)
    : { phase: hibernation.status?.phase ?? "Pending" };
  const stuck = finding.phase === "Failed";
  const plan = buildPlan(observed, finding, { addFinalizer: false });
  return { ...plan, removeFinalizer: !mustWake || stuck || finding.phase === "Active" };
}

function find(observed: ObservedHibernation): Finding {
  const { hibernation, machine } = observed;
  const phase = hibernation.status?.phase;
  if (!machine || machine.vm.vmName === "") return missing(observed);
  if (!machine.vm.managed)
    return {
      phase: "Failed",
      message: `${machine.podName} is a static machine; it can be neither put to sleep nor woken`,
    };
  const request = readHibernationRequest(hibernation);
  if (request === "sleep") return findSleep(observed, machine);
  if (request === "wake") return findWake(observed, machine);
  return { phase: phase ?? "Active", ...leftover(observed, machine) };
}

/** Hibernated and Waking carry the intent to restore: they are not forgotten while the pod is replaced. */
function missing({ hibernation, machine }: ObservedHibernation): Finding {
  const { name } = hibernation.spec.podRef;
  const phase = hibernation.status?.phase;
  if (phase === "Hibernated" || phase === "Waking") return { phase };
  const message = machine ? `pod ${name} has no machine name yet` : `waiting for pod ${name}`;
  return { phase: "Pending", message };
}

function findSleep(observed: ObservedHibernation, machine: Machine): Finding {
  const podChanges = keyChanges(observed, machine, true);
  if ((machine.asleep || sleepsOn(observed, machine)) && !podChanges) return findProof(observed, machine);
  if (machine.failed && !podChanges) return failed(machine);
  return underWay(observed, { phase: "Hibernating", podChanges, message: machine.lifecycle.message });
}

/** It was proven asleep and not woken: a newer generation of its set does not make that untrue. */
function sleepsOn({ hibernation }: ObservedHibernation, { hibernate, lifecycle }: Machine): boolean {
  return hibernation.status?.phase === "Hibernated" && hibernate && lifecycle.state === "hibernated";
}

/** The kubelet says that it sleeps; the registry has to say the same, once per sleep. */
function findProof(observed: ObservedHibernation, machine: Machine): Finding {
  const { hibernation, tag } = observed;
  const { recordedDigest, vm } = machine;
  const fits = (digest: string) => recordedDigest === "" || recordedDigest === digest;
  const known = hibernation.status?.phase === "Hibernated" ? hibernation.status.snapshotDigest : undefined;
  if (known && fits(known)) return { phase: "Hibernated", digest: known };
  if (tag === undefined) return { phase: "Hibernating", needsLookup: true };
  if (tag.kind === "there" && fits(tag.digest)) return { phase: "Hibernated", digest: tag.digest };
  const message =
    tag.kind === "unknown"
      ? tag.message
      : `${vm.vmName}:hibernate does not name the snapshot that the machine is hibernated in`;
  return underWay(observed, { phase: "Hibernating", message, retry: true });
}

function findWake(observed: ObservedHibernation, machine: Machine): Finding {
  const { hibernation } = observed;
  if (observed.setSuspended)
    return { phase: "Pending", message: `set ${observed.ownerSet} is suspended; the machine wakes with it` };
  const podChanges = keyChanges(observed, machine, false);
  if (machine.awake && !podChanges)
    return { phase: "Active", digest: hibernation.status?.snapshotDigest, ...leftover(observed, machine) };
  if (machine.failed && !podChanges && !machine.hibernate) return failed(machine);
  return underWay(observed, {
    phase: "Waking",
    podChanges,
    message: machine.lifecycle.message,
    digest: hibernation.status?.snapshotDigest,
  });
}

function failed(machine: Machine): Finding {
  return { phase: "Failed", message: machine.lifecycle.message || `pod ${machine.podName} failed` };
}

/** Its set's controller writes the key of a set's pod. */
function keyChanges(
  { ownerSet, hibernation }: ObservedHibernation,
  machine: Machine,
  sleep: boolean,
): Texts | undefined {
  if (ownerSet !== "" || machine.hibernate === sleep) return undefined;
  const older = isBridged(hibernation) ? { [legacyAnnotation.hibernate]: "true" } : {};
  if (sleep) return { [annotation.hibernate]: "true", ...older, [annotation.hibernateReason]: "hibernation" };
  return {
    [annotation.hibernate]: null,
    [legacyAnnotation.hibernate]: null,
    [annotation.hibernateReason]: null,
  };
}

/** Not there yet: within the budget it goes on, after it the attempt has failed, and a failed one stays failed. */
function underWay(observed: ObservedHibernation, finding: Finding): Finding {
  const { hibernation, now } = observed;
  const { status, metadata } = hibernation;
  if (status?.phase === "Failed" && !wantsRetry(observed)) {
    const message = findCondition(status.conditions, "Ready")?.message ?? "Failed";
    return { ...finding, phase: "Failed", message, retry: false };
  }
  if (status?.phase !== finding.phase)
    return { ...finding, requeueAfterMs: budgetMs(observed, finding.phase) };
  const since = Date.parse(findCondition(status.conditions, "Ready")?.lastTransitionTime ?? "");
  const leftMs = since + budgetMs(observed, finding.phase) - now.getTime();
  if (leftMs > 0) return { ...finding, requeueAfterMs: leftMs };
  const what = finding.phase === "Waking" ? "wake" : "go to sleep";
  const said = finding.message ? `: ${finding.message}` : "";
  return {
    ...finding,
    phase: "Failed",
    timedOut: true,
    retry: false,
    message: `the machine did not ${what} within ${Math.round(budgetMs(observed, finding.phase) / 1000)} s${said} (generation ${metadata.generation ?? 0})`,
  };
}

function budgetMs({ hibernation }: ObservedHibernation, phase: HibernationPhase): number {
  const { timeout } = hibernation.spec;
  if (timeout !== undefined) return parseDuration(timeout);
  return phase === "Waking" ? defaultBudgetMs.wake : defaultBudgetMs.sleep;
}

/** After a failure: a new spec or a new text in the annotation requests another attempt. */
function wantsRetry({ hibernation, retryText }: ObservedHibernation): boolean {
  const { status, metadata } = hibernation;
  return (
    (status?.observedGeneration ?? 0) !== (metadata.generation ?? 0) ||
    (status?.observedRetry ?? "") !== retryText
  );
}

/** The copy that the machine woke from. */
function leftover(observed: ObservedHibernation, machine: Machine): Partial<Finding> {
  const digest = observed.hibernation.status?.snapshotDigest;
  if (digest === undefined) return {};
  if (!machine.awake || machine.loading) return { digest };
  const leftMs = readySince(machine) + graceMs - observed.now.getTime();
  return leftMs > 0
    ? { digest, requeueAfterMs: leftMs }
    : judgeLeftover(digest, machine.restoredDigest, observed.tag);
}

/** Dropped only with the proof that the running VM was restored from it; otherwise reported once, and kept. */
function judgeLeftover(
  digest: string,
  restoredDigest: string,
  tag: ObservedHibernation["tag"],
): Partial<Finding> {
  if (tag === undefined) return { digest, needsLookup: true };
  if (tag.kind === "unknown") return { digest, retry: true };
  if (tag.kind === "absent") return { digest: undefined };
  return tag.digest === digest && restoredDigest === digest
    ? { drop: digest, digest: undefined }
    : { kept: tag.digest, digest: undefined };
}

function buildPlan(
  observed: ObservedHibernation,
  finding: Finding,
  { addFinalizer }: { readonly addFinalizer: boolean },
): HibernationPlan {
  const status = computeStatus(observed, finding);
  return {
    addFinalizer,
    removeFinalizer: false,
    podChanges: finding.podChanges,
    needsLookup: finding.needsLookup ?? false,
    drop: finding.drop,
    status,
    events: computeEvents(observed, finding),
    duration: computeDuration(observed, finding),
    requeueAfterMs: finding.requeueAfterMs,
    retry: finding.retry ?? false,
  };
}

export function readRetryText(annotations: Readonly<Record<string, string>> | undefined): string {
  return (annotations?.[hibernationAnnotation.retry] ?? "").slice(0, 253);
}
