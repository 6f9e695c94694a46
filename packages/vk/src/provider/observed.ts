/** What is known of one machine before a step is planned: the pod, the VM on this node, the registry, other nodes. */
import type { HibernatedSnapshot } from "@cocoon/machine";
import type { VmState } from "@cocoon/vm";
import type { CheckResult } from "../probes/checks.ts";
import type { PodMachine } from "../pod-machine.ts";
import type { SandboxState } from "./sandbox-owner.ts";

export type Desired = "running" | "asleep" | "gone";

/**
 * How a pod ends. `deleted`: the deletion was requested. `forceDeleted`: it was removed at once by a client, so the machine
 * leaves a snapshot whatever the policy says.
 */
export type Ending = "deleted" | "forceDeleted";

export interface ObservedVm {
  readonly id: string;
  readonly state: VmState;
  /** Digest of the snapshot that it was restored from; "" when it was not, or that is not proven. */
  readonly restoredFrom: string;
  /** Namespace of the pod that it was made for; "" when the engine keeps no labels. */
  readonly namespace: string;
  /** Content of the snapshot that it was restored from is still on its way. */
  readonly loading?: boolean;
  /** While it loads: what it did since it was restored may be relied on. */
  readonly hasAnswered?: boolean;
}

/** `unknown`: not looked up, because no step depends on it, or no registry is configured. */
export type Lookup<T> = T | undefined | "unknown";

/** What tag `hibernate` names although the machine runs. */
export interface StaleSnapshot {
  readonly digest: string;
  /** Of the VM that was saved; "" when it does not say. */
  readonly vmId: string;
}

export interface Observed {
  readonly machine: PodMachine;
  readonly desired: Desired;
  readonly ending: Ending | undefined;
  /** Of the Sandbox that owns the pod, while the pod ends. */
  readonly sandbox: SandboxState;
  /** At the end of a Sandbox: its snapshots were settled. */
  readonly snapshotsSettled: boolean;
  readonly node: string;
  readonly vm: ObservedVm | undefined;
  /** The local snapshot with the machine's name. */
  readonly local: { readonly id: string; readonly vmId: string | undefined } | undefined;
  /** What tag `hibernate` names, while no VM runs or the machine is to hibernate. */
  readonly hibernated: Lookup<HibernatedSnapshot>;
  /** At the end of a wake and at deletion. `unavailable`: the lookup got no answer, and can wait. */
  readonly stale: Lookup<StaleSnapshot> | "unavailable";
  /** At deletion: id of the snapshot that tag `latest` names. */
  readonly latestSnapshotId: string | undefined;
  /** Of the nodes that matter to the hibernated snapshot: those that can no longer run anything. */
  readonly fencedNodes: readonly string[];
  /** Of a Sandbox whose machine is nowhere to be found here: another node that may have its VM. */
  readonly heldBy: string | undefined;
  /** Then too: the machine that the Sandbox took over, where the pod has another name. */
  readonly takenOver: string | undefined;
  /** The Sandbox that owns the pod is not yet recorded as the one of its machine. */
  readonly canTakeOver: boolean;
  readonly hasRegistry: boolean;
  /** A save can leave the VM paused. Where not, only a snapshot made just now is exactly where the VM is. */
  readonly canSavePaused: boolean;
  /** Id of the snapshot that this process saved last, in this attempt to hibernate the machine. */
  readonly savedNow: string | undefined;
  /** Nothing more is to be sent before the VM is paused: it was, in this attempt, or it cannot be. */
  readonly pushedAhead: boolean;
  /** Starts of this VM by this process after which it did not stay up, and the last failure. */
  readonly starts: { readonly inRow: number; readonly failure: string };
  readonly probe: ObservedProbe;
  /** After this VM became ready, its snapshot was dropped or reported, in this process. */
  readonly wakeFinished: boolean;
  /** At deletion: a foreign snapshot under the running machine was reported. */
  readonly reported: boolean;
}

export interface ObservedProbe {
  /** The VM as it is now is being probed. */
  readonly running: boolean;
  readonly result: CheckResult | undefined;
  /** The result is in the pod's status. */
  readonly published: boolean;
}

/** The running VM continues from this snapshot: it was restored from it, or the snapshot was saved of it. */
export function isOrigin(vm: ObservedVm, snapshot: StaleSnapshot): boolean {
  return vm.restoredFrom === snapshot.digest || snapshot.vmId === vm.id;
}

export function isLive({ state }: Pick<ObservedVm, "state">): boolean {
  return state === "running" || state === "paused";
}

/** The lookup was made and found a snapshot. */
export function getFound<T>(lookup: Lookup<T>): T | undefined {
  return lookup === "unknown" ? undefined : lookup;
}
