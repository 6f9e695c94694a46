/**
 * What to do next for one CocoonHibernation. Pure.
 *
 *   wish   evidence on the pod                         phase
 *   sleep  hibernated for the newest wish, copy there  Hibernated
 *          failed                                      Failed, with the kubelet's words
 *          too late                                    Failed
 *          otherwise                                   Hibernating
 *   wake   ready for the newest wish, running          Active
 *          the set is suspended                        Pending
 *          failed, too late                            Failed
 *          otherwise                                   Waking
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
import type { Happening, Texts } from "../cocoonset/draft.ts";
import { readySince, type Machine } from "../machine.ts";
import { demandOf } from "../wakes.ts";
import { durationOf, happeningsOf, statusOf, type Duration, type Finding } from "./status.ts";
import type { HibernationWorld } from "./world.ts";

export interface HibernationPlan {
  readonly addFinalizer: boolean;
  readonly removeFinalizer: boolean;
  /** Annotations of the pod; only for pods that no set owns. */
  readonly podChanges: Texts | undefined;
  /** The registry has to be asked before this plan can be complete. */
  readonly ask: boolean;
  /** The copy that the machine woke from, if it is still to be dropped. */
  readonly drop: string | undefined;
  readonly status: CocoonHibernationStatus;
  readonly happenings: readonly Happening[];
  readonly duration: Duration | undefined;
  readonly lookAgainMs: number | undefined;
  readonly retry: boolean;
}

const defaultBudgetMs = { sleep: 3 * 60_000, wake: 5 * 60_000 };
/** The kubelet drops the copy itself; what is left after this time is ours to drop. */
const graceMs = 30_000;

export function planHibernation(world: HibernationWorld): HibernationPlan {
  const { hibernation } = world;
  if (hibernation.metadata.deletionTimestamp !== undefined) return planDeletion(world);
  const finding = find(world);
  return planOf(world, finding, { addFinalizer: !hasFinalizer(hibernation, finalizer.cocoonHibernation) });
}

/** The snapshot stays, and so does the sleep, unless the object asks for a wake first. */
function planDeletion(world: HibernationWorld): HibernationPlan {
  const { hibernation, machine } = world;
  const mustWake =
    demandOf(hibernation) === "wake" && machine !== undefined && !machine.awake && !world.setSuspended;
  const finding: Finding = mustWake
    ? findWake(world, machine)
    : { phase: hibernation.status?.phase ?? "Pending" };
  const stuck = finding.phase === "Failed";
  const plan = planOf(world, finding, { addFinalizer: false });
  return { ...plan, removeFinalizer: !mustWake || stuck || finding.phase === "Active" };
}

function find(world: HibernationWorld): Finding {
  const { hibernation, machine } = world;
  const phase = hibernation.status?.phase;
  if (!machine || machine.vm.vmName === "") return missing(world);
  if (!machine.vm.managed)
    return {
      phase: "Failed",
      message: `${machine.podName} is a static machine; it can be neither put to sleep nor woken`,
    };
  const demand = demandOf(hibernation);
  if (demand === "sleep") return findSleep(world, machine);
  if (demand === "wake") return findWake(world, machine);
  return { phase: phase ?? "Active", ...leftover(world, machine) };
}

/** Hibernated and Waking carry the intent to restore: they are not forgotten while the pod is replaced. */
function missing({ hibernation, machine }: HibernationWorld): Finding {
  const { name } = hibernation.spec.podRef;
  const phase = hibernation.status?.phase;
  if (phase === "Hibernated" || phase === "Waking") return { phase };
  const message = machine ? `pod ${name} has no machine name yet` : `waiting for pod ${name}`;
  return { phase: "Pending", message };
}

function findSleep(world: HibernationWorld, machine: Machine): Finding {
  const podChanges = keyChanges(world, machine, true);
  if ((machine.asleep || sleepsOn(world, machine)) && !podChanges) return findProof(world, machine);
  if (machine.failed && !podChanges) return failed(machine);
  return underWay(world, { phase: "Hibernating", podChanges, message: machine.lifecycle.message });
}

/** It was proven asleep and nobody woke it: a newer generation of its set does not make that untrue. */
function sleepsOn({ hibernation }: HibernationWorld, { sleepKey, lifecycle }: Machine): boolean {
  return hibernation.status?.phase === "Hibernated" && sleepKey && lifecycle.state === "hibernated";
}

/** The kubelet says that it sleeps; the registry has to say the same, once per sleep. */
function findProof(world: HibernationWorld, machine: Machine): Finding {
  const { hibernation, tag } = world;
  const { recordedDigest, vm } = machine;
  const fits = (digest: string) => recordedDigest === "" || recordedDigest === digest;
  const known = hibernation.status?.phase === "Hibernated" ? hibernation.status.snapshotDigest : undefined;
  if (known && fits(known)) return { phase: "Hibernated", digest: known };
  if (tag === undefined) return { phase: "Hibernating", ask: true };
  if (tag.kind === "there" && fits(tag.digest)) return { phase: "Hibernated", digest: tag.digest };
  const message =
    tag.kind === "unknown"
      ? tag.message
      : `${vm.vmName}:hibernate does not name the copy the machine sleeps in`;
  return underWay(world, { phase: "Hibernating", message, retry: true });
}

function findWake(world: HibernationWorld, machine: Machine): Finding {
  const { hibernation } = world;
  if (world.setSuspended)
    return { phase: "Pending", message: `set ${world.ownerSet} is suspended; the machine wakes with it` };
  const podChanges = keyChanges(world, machine, false);
  if (machine.awake && !podChanges)
    return { phase: "Active", digest: hibernation.status?.snapshotDigest, ...leftover(world, machine) };
  if (machine.failed && !podChanges && !machine.sleepKey) return failed(machine);
  return underWay(world, {
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
function keyChanges({ ownerSet }: HibernationWorld, machine: Machine, sleep: boolean): Texts | undefined {
  if (ownerSet !== "" || machine.sleepKey === sleep) return undefined;
  if (sleep) return { [annotation.hibernate]: "true", [annotation.hibernateReason]: "hibernation" };
  return {
    [annotation.hibernate]: null,
    [legacyAnnotation.hibernate]: null,
    [annotation.hibernateReason]: null,
  };
}

/** Not there yet: within the budget it goes on, after it the attempt has failed, and a failed one stays failed. */
function underWay(world: HibernationWorld, finding: Finding): Finding {
  const { hibernation, now } = world;
  const { status, metadata } = hibernation;
  if (status?.phase === "Failed" && !wantsRetry(world)) {
    const message = findCondition(status.conditions, "Ready")?.message ?? "Failed";
    return { ...finding, phase: "Failed", message, retry: false };
  }
  if (status?.phase !== finding.phase) return { ...finding, lookAgainMs: budgetMs(world, finding.phase) };
  const since = Date.parse(findCondition(status.conditions, "Ready")?.lastTransitionTime ?? "");
  const leftMs = since + budgetMs(world, finding.phase) - now.getTime();
  if (leftMs > 0) return { ...finding, lookAgainMs: leftMs };
  const what = finding.phase === "Waking" ? "wake" : "go to sleep";
  const said = finding.message ? `: ${finding.message}` : "";
  return {
    ...finding,
    phase: "Failed",
    timedOut: true,
    retry: false,
    message: `the machine did not ${what} within ${Math.round(budgetMs(world, finding.phase) / 1000)} s${said} (generation ${metadata.generation ?? 0})`,
  };
}

function budgetMs({ hibernation }: HibernationWorld, phase: HibernationPhase): number {
  const { timeout } = hibernation.spec;
  if (timeout !== undefined) return parseDuration(timeout);
  return phase === "Waking" ? defaultBudgetMs.wake : defaultBudgetMs.sleep;
}

/** After a failure: a new spec or a new text in the annotation asks for another attempt. */
function wantsRetry({ hibernation, retryText }: HibernationWorld): boolean {
  const { status, metadata } = hibernation;
  return (
    (status?.observedGeneration ?? 0) !== (metadata.generation ?? 0) ||
    (status?.observedRetry ?? "") !== retryText
  );
}

/** The copy that the machine woke from. */
function leftover(world: HibernationWorld, machine: Machine): Partial<Finding> {
  const digest = world.hibernation.status?.snapshotDigest;
  if (digest === undefined) return {};
  if (!machine.awake) return { digest };
  const leftMs = readySince(machine) + graceMs - world.now.getTime();
  return leftMs > 0 ? { digest, lookAgainMs: leftMs } : judgeLeftover(digest, world.tag);
}

function judgeLeftover(digest: string, tag: HibernationWorld["tag"]): Partial<Finding> {
  if (tag === undefined) return { digest, ask: true };
  if (tag.kind === "unknown") return { digest, retry: true };
  return tag.kind === "there" && tag.digest === digest
    ? { drop: digest, digest: undefined }
    : { digest: undefined };
}

function planOf(
  world: HibernationWorld,
  finding: Finding,
  { addFinalizer }: { readonly addFinalizer: boolean },
): HibernationPlan {
  const status = statusOf(world, finding);
  return {
    addFinalizer,
    removeFinalizer: false,
    podChanges: finding.podChanges,
    ask: finding.ask ?? false,
    drop: finding.drop,
    status,
    happenings: happeningsOf(world, finding),
    duration: durationOf(world, finding),
    lookAgainMs: finding.lookAgainMs,
    retry: finding.retry ?? false,
  };
}

export function retryTextOf(annotations: Readonly<Record<string, string>> | undefined): string {
  return (annotations?.[hibernationAnnotation.retry] ?? "").slice(0, 253);
}
