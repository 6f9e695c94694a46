/**
 * A machine that is wanted and has no pod: may it be created, and does it start fresh or from where it slept? "Could
 * not ask" creates nothing: a fresh boot could later overwrite the machine's only copy.
 */
import { latestTag, readDeleteList, readRebuildHistory, setAnnotation } from "@cocoon/contract";
import { demandOf } from "../wakes.ts";
import type { Draft } from "./draft.ts";
import type { Member } from "./members.ts";
import type { Placement, PodWishes } from "./pod-template.ts";

export type Start =
  /** Not now: something has to be known or finished first, or it is refused. */
  | { readonly kind: "wait" }
  | { readonly kind: "fresh" }
  | { readonly kind: "restore"; readonly node: string };

const sleepingPhases: ReadonlySet<string> = new Set(["Suspending", "Suspended", "Waking", "Migrating"]);
const restoringPhases: ReadonlySet<string> = new Set(["Hibernating", "Hibernated", "Waking"]);

export function startOf(draft: Draft, member: Member): Start {
  if (isBlocked(draft, member)) return { kind: "wait" };
  if (!member.vm.managed || !mayHaveSlept(draft, member)) return { kind: "fresh" };
  const memory = draft.remembered.get(member.vmName);
  const tag = draft.tag(member.vmName);
  if (!tag) return { kind: "wait" };
  if (tag.kind === "absent") return bootsFresh(draft, member) ? { kind: "fresh" } : { kind: "wait" };
  if (memory?.awake && memory.snapshotDigest === tag.digest) {
    // It woke from that copy and went on: coming back to it would undo what the machine did since.
    draft.do({ kind: "dropSleeping", vmName: member.vmName, digest: tag.digest });
    draft.digests.delete(member.vmName);
    return { kind: "fresh" };
  }
  // Without proof that its VM is gone the pod carries no mark: the kubelet restores by the evidence it has, or waits.
  if (!isProvenAsleep(draft, member, tag.digest)) return { kind: "fresh" };
  draft.digests.set(member.vmName, tag.digest);
  return { kind: "restore", node: memory?.node ?? "" };
}

/** It was seen asleep in this very copy: by this controller, by a hibernation, or by an operator before this one. */
function isProvenAsleep({ world, remembered }: Draft, member: Member, digest: string): boolean {
  const memory = remembered.get(member.vmName);
  if (memory?.asleep) return memory.snapshotDigest === "" || memory.snapshotDigest === digest;
  // Its copy goes when it is awake: it never came so far.
  if (memory?.waking) return memory.snapshotDigest === digest;
  const { phase, snapshotDigest = digest } = world.hibernations.get(member.podName)?.status ?? {};
  if (phase === "Hibernated" || phase === "Waking") return snapshotDigest === digest;
  return memory === undefined && sleepingPhases.has(world.set.status?.phase ?? "");
}

function isBlocked(draft: Draft, member: Member): boolean {
  const conflict = draft.world.taken.get(member.podName);
  if (conflict !== undefined) draft.trouble("NameConflict", conflict);
  const misnamed = draft.troubles.some(({ reason }) => reason === "InvalidNames");
  // The copy of the machine that had this name before is renamed first.
  return conflict !== undefined || misnamed || releasedNames(draft).includes(member.vmName);
}

function mayHaveSlept({ world, remembered }: Draft, member: Member): boolean {
  const phase = world.hibernations.get(member.podName)?.status?.phase ?? "";
  return (
    remembered.has(member.vmName) ||
    sleepingPhases.has(world.set.status?.phase ?? "") ||
    restoringPhases.has(phase)
  );
}

/** The registry has no copy. A machine that slept is not replaced by an empty one unless somebody says so. */
export function bootsFresh(draft: Draft, member: Member): boolean {
  const memory = draft.remembered.get(member.vmName);
  const allowed = (draft.world.set.metadata.annotations?.[setAnnotation.bootFresh] ?? "").split(",");
  if (!memory?.asleep || memory.snapshotDigest === "" || allowed.includes(member.podName)) {
    draft.digests.delete(member.vmName);
    return true;
  }
  draft.trouble(
    "SnapshotMissing",
    `${member.podName} should sleep in ${memory.snapshotDigest}, but ${member.vmName}:hibernate is not there; nothing is booted in its place unless annotation ${setAnnotation.bootFresh} names the pod`,
  );
  return false;
}

export function releasedNames({ world }: Draft): readonly string[] {
  const text = world.set.metadata.annotations?.[setAnnotation.releasedVmNames] ?? "";
  return readDeleteList({ [setAnnotation.deleteVmNames]: text });
}

export function createFrom(
  draft: Draft,
  member: Member,
  options: Pick<PodWishes, "placement" | "restore">,
): void {
  const { world } = draft;
  const hibernation = world.hibernations.get(member.podName);
  const staysAsleep = options.restore && hibernation !== undefined && demandOf(hibernation) === "sleep";
  // Phases are memory: what is about to happen is written down first.
  if (staysAsleep) draft.do({ kind: "persistStatus" });
  else if (options.restore || draft.isKnownAsleep(member.vmName)) draft.wakes(member.vmName);
  const image = options.restore ? undefined : imageOfRebuild(draft, member);
  draft.do({
    kind: "createPod",
    member,
    wishes: {
      ...options,
      sleep: staysAsleep ? "hibernation" : "",
      legacyKeys: world.legacyKeys,
      ...(image === undefined ? {} : { image }),
    },
  });
}

/** A main agent that failed may go on from its own last snapshot. */
function imageOfRebuild({ world }: Draft, member: Member): string | undefined {
  const { metadata, spec } = world.set;
  if (member.role !== "main" || spec.rebuild?.main !== "Latest") return undefined;
  const attempts = readRebuildHistory(metadata.annotations).get(0)?.count ?? 0;
  return attempts > 0 ? `${member.vmName}:${latestTag}` : undefined;
}

export function preferred(node: string): Placement {
  return node === "" ? { kind: "anywhere" } : { kind: "preferred", node };
}
