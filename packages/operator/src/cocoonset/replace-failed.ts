/**
 * Whether a failed machine may be replaced: not when a snapshot in the registry may hold its state, and not when its
 * snapshot is lost, unless a user permits it (`boot-fresh`). A wake that failed is simply done again.
 */
import type { Machine } from "../pod-machine.ts";
import { bootFreshHint, isBootFreshAllowed } from "./boot-fresh.ts";
import type { Draft } from "./draft.ts";
import type { Member } from "./members.ts";
import { findLostSnapshot, isProvenAsleep } from "./plan-creation.ts";

/** False: the reason is reported, or the registry has to be looked up first. */
export function mayReplaceFailed(draft: Draft, member: Member, machine: Machine): boolean {
  if (!machine.vm.managed) return true;
  const tag = draft.tag(machine.vm.vmName);
  if (!tag) return false;
  return tag.kind === "there"
    ? mayReplaceWithSnapshot(draft, { member, machine, digest: tag.digest })
    : mayReplaceWithout(draft, member, machine);
}

interface Candidate {
  readonly member: Member;
  readonly machine: Machine;
  readonly digest: string;
}

function mayReplaceWithSnapshot(draft: Draft, { member, machine, digest }: Candidate): boolean {
  const { recordedDigest, podName, vm } = machine;
  const restorable = recordedDigest === "" || recordedDigest === digest;
  if (restorable && isProvenAsleep(draft, member, digest)) return true;
  if (isBootFreshAllowed(draft, podName)) {
    draft.do({ kind: "releaseSnapshot", vmName: vm.vmName, digest });
    draft.digests.delete(vm.vmName);
    return true;
  }
  draft.problem(
    "SnapshotExists",
    `${podName} failed, and ${vm.vmName}:hibernate (${digest}) may hold its state; ${bootFreshHint(podName)}`,
  );
  return false;
}

function mayReplaceWithout(draft: Draft, member: Member, machine: Machine): boolean {
  const { recordedDigest, restoreMarked, runtime, podName, vm } = machine;
  const unrestored = restoreMarked && runtime.vmId === "" ? "a snapshot" : "";
  const lost = recordedDigest || findLostSnapshot(draft, member) || unrestored;
  if (lost === "" || isBootFreshAllowed(draft, podName)) return true;
  draft.problem(
    "SnapshotMissing",
    `${podName} failed and should be restored from ${lost}, but ${vm.vmName}:hibernate is not there; ${bootFreshHint(podName)}`,
  );
  return false;
}
