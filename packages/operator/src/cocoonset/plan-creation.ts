/**
 * A machine that is wanted and has no pod: may it be created, and does it start fresh or from where it slept? "Could
 * not ask" creates nothing: a fresh boot could later overwrite the machine's only copy.
 */
import { latestTag, readRebuildHistory, setAnnotation } from "@cocoon/contract";
import { readHibernationRequest } from "../hibernation-request.ts";
import type { Draft } from "./draft.ts";
import type { ObservedSet } from "./observed-set.ts";
import type { Member } from "./members.ts";
import { bootFreshHint, isBootFreshAllowed } from "./boot-fresh.ts";
import { readReleasedNames } from "./vm-names.ts";
import type { Machine } from "../pod-machine.ts";
import { requiredNode, type Placement, type PodOptions } from "./pod-template.ts";

export type Start =
  /** Not now: something has to be known or finished first, or it is refused. */
  | { readonly kind: "wait" }
  /** From its image, on that node when one holds its VM: the kubelet there adopts it. */
  | { readonly kind: "fresh"; readonly node: string }
  | { readonly kind: "restore"; readonly node: string };

type Source = Exclude<Start, { readonly kind: "fresh" }> | { readonly kind: "fresh" };

const sleepingPhases: ReadonlySet<string> = new Set(["Suspending", "Suspended", "Waking", "Migrating"]);
const restoringPhases: ReadonlySet<string> = new Set(["Hibernating", "Hibernated", "Waking"]);

export function planStart(draft: Draft, member: Member): Start {
  if (isBlocked(draft, member)) return { kind: "wait" };
  const source = planSource(draft, member);
  return source.kind === "fresh" ? placeFresh(draft, member) : source;
}

const holderRetryMs = 5_000;

/**
 * A machine without a pod may still have its VM, with its disk, on a node: its pod was removed by force, or etcd was
 * restored from an older copy. No other node boots an empty machine in its place unless a user permits it.
 */
export function placeFresh(draft: Draft, member: Member): Start {
  const holder = member.vm.managed ? draft.observed.findHolder(member.vmName) : undefined;
  if (!holder || isBootFreshAllowed(draft, member.podName)) return { kind: "fresh", node: "" };
  if (holder.usable) return { kind: "fresh", node: holder.node };
  draft.requeueAfter(holderRetryMs);
  draft.problem(
    "NodeUnavailable",
    `${member.podName} has its VM on node ${holder.node}, which takes no pods now; ${bootFreshHint(member.podName)}`,
  );
  return { kind: "wait" };
}

/** Whether a pod without a node waits for the one that holds its VM. */
export function waitsForHolder({ observed }: Draft, { vm, pod }: Machine): boolean {
  const holder = observed.findHolder(vm.vmName)?.node;
  return holder !== undefined && requiredNode(pod) === holder;
}

function planSource(draft: Draft, member: Member): Source {
  if (!member.vm.managed || !mayHaveSlept(draft, member)) return { kind: "fresh" };
  const memory = draft.remembered.get(member.vmName);
  const tag = draft.tag(member.vmName);
  if (!tag) return { kind: "wait" };
  if (tag.kind === "absent") return mayBootFresh(draft, member) ? { kind: "fresh" } : { kind: "wait" };
  if (memory?.awake && memory.snapshotDigest === tag.digest) {
    // It ran after this snapshot, restored from it or not: restoring would undo that, dropping could lose a machine.
    draft.do({ kind: "releaseSnapshot", vmName: member.vmName, digest: tag.digest });
    draft.digests.delete(member.vmName);
    return { kind: "fresh" };
  }
  // Without proof that its VM is gone the pod carries no mark: the kubelet restores by the evidence it has, or waits.
  if (!isProvenAsleep(draft, member, tag.digest)) return { kind: "fresh" };
  draft.digests.set(member.vmName, tag.digest);
  return { kind: "restore", node: memory?.node ?? "" };
}

/** It was seen asleep in this very copy: by this controller, by a hibernation, or by an operator before this one. */
export function isProvenAsleep({ observed, remembered }: Draft, member: Member, digest: string): boolean {
  const memory = remembered.get(member.vmName);
  if (memory?.asleep) return memory.snapshotDigest === "" || memory.snapshotDigest === digest;
  // Its copy goes when it is awake: it never came so far.
  if (memory?.waking) return memory.snapshotDigest === digest;
  const { phase, snapshotDigest = digest } = observed.hibernations.get(member.podName)?.status ?? {};
  if (phase === "Hibernated" || phase === "Waking") return snapshotDigest === digest;
  return memory === undefined && sleepingPhases.has(observed.set.status?.phase ?? "");
}

function isBlocked(draft: Draft, member: Member): boolean {
  const conflict = draft.observed.taken.get(member.podName);
  if (conflict !== undefined) draft.problem("NameConflict", conflict);
  const misnamed = draft.problems.some(({ reason }) => reason === "InvalidNames");
  // The copy of the machine that had this name before is renamed first.
  return conflict !== undefined || misnamed || readReleasedNames(draft).includes(member.vmName);
}

function mayHaveSlept({ observed, remembered }: Draft, member: Member): boolean {
  const phase = observed.hibernations.get(member.podName)?.status?.phase ?? "";
  return (
    remembered.has(member.vmName) ||
    sleepingPhases.has(observed.set.status?.phase ?? "") ||
    restoringPhases.has(phase)
  );
}

/** The registry has no snapshot. A machine that was hibernated is not replaced by a fresh one unless a user permits it. */
export function mayBootFresh(draft: Draft, member: Member): boolean {
  const lost = findLostSnapshot(draft, member);
  if (lost === "" || isBootFreshAllowed(draft, member.podName)) {
    draft.digests.delete(member.vmName);
    return true;
  }
  draft.problem(
    "SnapshotMissing",
    `${member.podName} should be hibernated in ${lost}, but ${member.vmName}:hibernate is not there; ${bootFreshHint(member.podName)}`,
  );
  return false;
}

/** What the machine was hibernated in by all that is recorded, in words; "" when it was running, or never was. */
export function findLostSnapshot({ observed, remembered }: Draft, member: Member): string {
  const memory = remembered.get(member.vmName);
  if ((memory?.asleep || memory?.waking) && memory.snapshotDigest !== "") return memory.snapshotDigest;
  if (memory?.awake) return "";
  return findRecordedElsewhere(observed, member);
}

/** By a CocoonHibernation, or by an operator that released the pod and keeps no digests. */
function findRecordedElsewhere({ hibernations, set }: ObservedSet, { podName, role }: Member): string {
  const { phase, snapshotDigest } = hibernations.get(podName)?.status ?? {};
  if (phase === "Hibernated" || phase === "Waking") return snapshotDigest ?? "a snapshot";
  const node = set.metadata.annotations?.[setAnnotation.hibernatedOnNode];
  return role === "main" && node !== undefined ? `a snapshot made on ${node}` : "";
}

export function createFrom(
  draft: Draft,
  member: Member,
  options: Pick<PodOptions, "placement" | "restore">,
): void {
  const { observed } = draft;
  const hibernation = observed.hibernations.get(member.podName);
  const staysAsleep =
    options.restore && hibernation !== undefined && readHibernationRequest(hibernation) === "sleep";
  // Phases are memory: what is about to happen is written down first.
  if (staysAsleep) draft.do({ kind: "persistStatus" });
  else if (options.restore || draft.isKnownAsleep(member.vmName)) draft.wakes(member.vmName);
  const image = options.restore ? undefined : resolveRebuildImage(draft, member);
  draft.do({
    kind: "createPod",
    member,
    options: {
      ...options,
      sleep: staysAsleep ? "hibernation" : "",
      legacyKeys: observed.legacyKeys,
      ...(image === undefined ? {} : { image }),
    },
  });
}

/** A main agent that failed may go on from its own last snapshot. */
function resolveRebuildImage({ observed }: Draft, member: Member): string | undefined {
  const { metadata, spec } = observed.set;
  if (member.role !== "main" || spec.rebuild?.main !== "Latest") return undefined;
  const attempts = readRebuildHistory(metadata.annotations).get(0)?.count ?? 0;
  return attempts > 0 ? `${member.vmName}:${latestTag}` : undefined;
}

export function required(node: string): Placement {
  return node === "" ? { kind: "anywhere" } : { kind: "required", node };
}

export function preferred(node: string): Placement {
  return node === "" ? { kind: "anywhere" } : { kind: "preferred", node };
}
