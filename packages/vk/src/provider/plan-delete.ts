/**
 * What to do next with a machine whose pod goes away. A deletion that somebody asked for ends the machine, after a
 * snapshot `latest` where the policy wants one; a disruption, or a pod that was to sleep anyway, ends asleep.
 * The VM goes only when what must be kept of it was read back from the registry.
 */
import type { Pod } from "@cocoon/kubelet";
import { planSave, planSleep, type Seen, type SleepingSnapshot, type Step } from "./plan.ts";

export interface SeenDeletion extends Seen {
  readonly disrupted: boolean;
  /** Id of the snapshot that tag `latest` names; undefined when there is none, or nobody needs to know. */
  readonly latestSnapshotId: string | undefined;
  /** What tag `hibernate` names although the machine is awake. */
  readonly stale: SleepingSnapshot | undefined;
}

export type DeletionStep =
  | Step
  | { readonly kind: "pushLatest" }
  | { readonly kind: "dropTag"; readonly digest: string };

/** Eviction, taint manager, preemption and pod garbage collection say so before they delete. */
export function isDisrupted(pod: Pod): boolean {
  return (
    pod.status?.conditions?.some(({ type, status }) => type === "DisruptionTarget" && status === "True") ??
    false
  );
}

/**
 * A snapshot that this machine came from, or that this node made of it. What another node pushed meanwhile under the
 * same name belongs to the copy that lives there.
 */
export function isOurs(snapshot: SleepingSnapshot, recordedDigest: string, node: string): boolean {
  return snapshot.digest === recordedDigest || snapshot.fromNode === node || snapshot.fromNode === "";
}

/** Whether the machine is to sleep instead of to end. */
function endsAsleep({ disrupted, machine }: SeenDeletion): boolean {
  return disrupted || machine.sleep;
}

export function planDeletion(seen: SeenDeletion): DeletionStep {
  const { machine, vm, local } = seen;
  if (!machine.vm.managed) return { kind: "settled" };
  if (endsAsleep(seen)) return planEndAsleep(seen);
  if (!vm) return local && !machine.keepSnapshot ? { kind: "dropLocal" } : { kind: "settled" };
  if (machine.snapshotOnDelete && seen.hasRegistry) {
    const saving = planSave(seen, vm);
    if (saving) return saving;
    if (seen.latestSnapshotId !== local?.id) return { kind: "pushLatest" };
  }
  // The machine went on from there; whoever comes next must not find the old state.
  const { stale } = seen;
  if (stale && machine.lifecycle.state === "ready" && isOurs(stale, machine.recordedDigest, seen.node))
    return { kind: "dropTag", digest: stale.digest };
  return { kind: "remove", vmId: vm.id };
}

function planEndAsleep(seen: SeenDeletion): DeletionStep {
  const { vm, tag, machine, local } = seen;
  const nothingToKeep = !vm && (tag === undefined || tag === "unasked");
  if (nothingToKeep) return { kind: "settled" };
  const step = planSleep({ ...seen, machine: { ...machine, sleep: true } });
  // What cannot sleep is kept: nobody asked for its end.
  if (step.kind !== "settled" && (vm || step.kind !== "refuse")) return step;
  return !vm && local && !machine.keepSnapshot ? { kind: "dropLocal" } : { kind: "settled" };
}
