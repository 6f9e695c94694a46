/** A plan while it is being made: steps, questions to the registry, and what the status will say. */
import type { CocoonHibernation, ConditionReport, SetPhase } from "@cocoon/contract";
import type { Machine } from "../pod-machine.ts";
import type { Member } from "./members.ts";
import type { PodOptions } from "./pod-template.ts";
import { rememberedMachines, type Remembered, type TagAnswer, type ObservedSet } from "./observed-set.ts";

export type Texts = Readonly<Record<string, string | null>>;

export interface Event {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

export type Action =
  | { readonly kind: "addFinalizer" }
  | { readonly kind: "removeFinalizer" }
  | { readonly kind: "deleteSet"; readonly why: string }
  | { readonly kind: "annotateSet"; readonly wanted: Texts }
  /** What is known now must be persisted before the steps that follow. */
  | { readonly kind: "persistStatus" }
  | {
      readonly kind: "changePod";
      readonly machine: Machine;
      readonly annotations: Texts;
      readonly labels?: Texts;
      /** Only in exactly the version that the plan saw. */
      readonly ifUnchanged?: boolean;
      /** Only while the API server has this request: the change outlives it. */
      readonly requestedBy?: CocoonHibernation;
    }
  | { readonly kind: "createPod"; readonly member: Member; readonly options: PodOptions }
  | {
      readonly kind: "deletePod";
      readonly machine: Machine;
      readonly why: string;
      /** The reason is the state of the pod: it is deleted only in exactly that version. */
      readonly ifUnchanged: boolean;
    }
  /** Removes the snapshot that this running machine was restored from, if the tag still names that digest. */
  | { readonly kind: "dropSnapshot"; readonly machine: Machine; readonly digest: string }
  /** Renames tag `hibernate` of a machine to `released-<time>`; with a digest, only if the tag names it. */
  | { readonly kind: "releaseSnapshot"; readonly vmName: string; readonly digest?: string }
  /** After the set's machines are gone: keep, rename or remove their snapshots. */
  | {
      readonly kind: "settleSnapshots";
      readonly vmNames: readonly string[];
      readonly keep: readonly string[];
      readonly purge: boolean;
    }
  /** Removes what `spec.retention` no longer keeps. */
  | {
      readonly kind: "expireSnapshots";
      readonly vmNames: readonly string[];
      readonly afterMs: number;
      readonly keep: number;
    }
  | { readonly kind: "emitEvent"; readonly event: Event }
  | { readonly kind: "count"; readonly what: Counted };

export type Counted =
  | { readonly metric: "rebuild" | "deadLetter" | "slotReleased" | "wakeUnschedulable" }
  | { readonly metric: "wake"; readonly placement: "hint-node" | "pool" };

export interface Problem {
  readonly reason: string;
  readonly message: string;
}

export interface SetPlan {
  readonly actions: readonly Action[];
  /** Machines whose tag has to be looked up before the plan can be complete. */
  readonly lookups: readonly string[];
  readonly phase: SetPhase;
  /** Digest of what each machine sleeps in, or slept in while the tag may still be there. */
  readonly digests: ReadonlyMap<string, string>;
  /** Machines that this plan wakes: from now on they may not be called hibernated. */
  readonly waking: ReadonlySet<string>;
  readonly conditions: readonly ConditionReport[];
  readonly problems: readonly Problem[];
  readonly requeueAfterMs: number | undefined;
  /** Something could not be asked: try again with back-off. */
  readonly retry: boolean;
}

export class Draft {
  readonly observed: ObservedSet;
  readonly remembered: ReadonlyMap<string, Remembered>;
  readonly actions: Action[] = [];
  readonly problems: Problem[] = [];
  readonly conditions: ConditionReport[] = [];
  readonly digests: Map<string, string>;
  readonly waking = new Set<string>();
  readonly #lookups = new Set<string>();
  #requeueAfterMs: number | undefined;
  #retry = false;

  constructor(observed: ObservedSet) {
    this.observed = observed;
    this.remembered = rememberedMachines(observed.set);
    this.digests = new Map(
      [...this.remembered.values()].flatMap(({ vmName, snapshotDigest }) =>
        snapshotDigest === "" ? [] : [[vmName, snapshotDigest] as const],
      ),
    );
  }

  get generation(): number {
    return this.observed.set.metadata.generation ?? 0;
  }

  /** The registry's answer; undefined when it is not known (yet): then nothing may be concluded from it. */
  tag(vmName: string): Exclude<TagAnswer, { kind: "unknown" }> | undefined {
    const answer = this.observed.tags.get(vmName);
    if (answer === undefined) {
      this.#lookups.add(vmName);
      return undefined;
    }
    if (answer.kind !== "unknown") return answer;
    this.#retry = true;
    this.problem("RegistryUnavailable", `cannot ask the registry about ${vmName}: ${answer.message}`);
    return undefined;
  }

  /** By the status, whatever the registry has now: the status must be corrected before it is woken in any way. */
  isKnownAsleep(vmName: string): boolean {
    return this.remembered.get(vmName)?.asleep ?? false;
  }

  do(...actions: readonly Action[]): void {
    this.actions.push(...actions);
  }

  /** Deletes a pod because of its state. */
  deletePod(machine: Machine, why: string): void {
    const remembered = this.remembered.get(machine.vm.vmName);
    // Awake now, and the status does not say so yet: without pod and snapshot it would look lost.
    if (machine.awake && (remembered?.asleep || remembered?.waking)) this.do({ kind: "persistStatus" });
    this.do({ kind: "deletePod", machine, why, ifUnchanged: true });
  }

  /**
   * Notes that a machine is woken, before it is: once it is awake its snapshot is dropped, and a reconcile that finds neither pod
   * nor snapshot must know that the machine was awake when its end came.
   */
  wakes(vmName: string): void {
    if (this.waking.size === 0) this.actions.unshift({ kind: "persistStatus" });
    this.waking.add(vmName);
  }

  emit(type: Event["type"], reason: string, message: string): void {
    this.do({ kind: "emitEvent", event: { type, reason, message } });
  }

  problem(reason: string, message: string): void {
    this.problems.push({ reason, message });
  }

  requeueAfter(ms: number): void {
    this.#requeueAfterMs = Math.max(0, Math.min(ms, this.#requeueAfterMs ?? Infinity));
  }

  finish(phase: SetPhase): SetPlan {
    const { actions, problems, conditions, digests } = this;
    return {
      actions,
      problems,
      conditions,
      digests,
      waking: this.waking,
      phase,
      lookups: [...this.#lookups],
      requeueAfterMs: this.#requeueAfterMs,
      retry: this.#retry,
    };
  }
}
