/** A plan while it is being made: steps, questions to the registry, and what the status will say. */
import type { ConditionReport, SetPhase } from "@cocoon/contract";
import type { Machine } from "../machine.ts";
import type { Member } from "./members.ts";
import type { PodWishes } from "./pod-template.ts";
import { rememberedMachines, type Remembered, type TagAnswer, type World } from "./world.ts";

export type Texts = Readonly<Record<string, string | null>>;

export interface Happening {
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
    }
  | { readonly kind: "createPod"; readonly member: Member; readonly wishes: PodWishes }
  | { readonly kind: "deletePod"; readonly machine: Machine; readonly why: string }
  /** Removes what a machine slept in, if the tag still names that digest. */
  | { readonly kind: "dropSleeping"; readonly vmName: string; readonly digest: string }
  /** Gives the sleeping copy of a machine that was given up another name. */
  | { readonly kind: "releaseSleeping"; readonly vmName: string }
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
  | { readonly kind: "tell"; readonly happening: Happening }
  | { readonly kind: "count"; readonly what: Counted };

export type Counted =
  | { readonly metric: "rebuild" | "deadLetter" | "seatReleased" | "wakeUnschedulable" }
  | { readonly metric: "wake"; readonly placement: "hint-node" | "pool" };

export interface Trouble {
  readonly reason: string;
  readonly message: string;
}

export interface SetPlan {
  readonly actions: readonly Action[];
  /** Machines whose tag has to be looked up before the plan can be complete. */
  readonly asks: readonly string[];
  readonly phase: SetPhase;
  /** Digest of what each machine sleeps in, or slept in while the tag may still be there. */
  readonly digests: ReadonlyMap<string, string>;
  /** Machines that this plan wakes: from now on nobody can say that they sleep. */
  readonly waking: ReadonlySet<string>;
  readonly conditions: readonly ConditionReport[];
  readonly troubles: readonly Trouble[];
  readonly lookAgainMs: number | undefined;
  /** Something could not be asked: try again with back-off. */
  readonly retry: boolean;
}

export class Draft {
  readonly world: World;
  readonly remembered: ReadonlyMap<string, Remembered>;
  readonly actions: Action[] = [];
  readonly troubles: Trouble[] = [];
  readonly conditions: ConditionReport[] = [];
  readonly digests: Map<string, string>;
  readonly waking = new Set<string>();
  readonly #asks = new Set<string>();
  #lookAgainMs: number | undefined;
  #retry = false;

  constructor(world: World) {
    this.world = world;
    this.remembered = rememberedMachines(world.set);
    this.digests = new Map(
      [...this.remembered.values()].flatMap(({ vmName, snapshotDigest }) =>
        snapshotDigest === "" ? [] : [[vmName, snapshotDigest] as const],
      ),
    );
  }

  get generation(): number {
    return this.world.set.metadata.generation ?? 0;
  }

  /** The registry's answer; undefined when it is not known (yet): then nothing may be concluded from it. */
  tag(vmName: string): Exclude<TagAnswer, { kind: "unknown" }> | undefined {
    const answer = this.world.tags.get(vmName);
    if (answer === undefined) {
      this.#asks.add(vmName);
      return undefined;
    }
    if (answer.kind !== "unknown") return answer;
    this.#retry = true;
    this.trouble("RegistryUnavailable", `cannot ask the registry about ${vmName}: ${answer.message}`);
    return undefined;
  }

  /** The status says so, whatever the registry says now: whoever wakes it in any way has to take that back first. */
  isKnownAsleep(vmName: string): boolean {
    return this.remembered.get(vmName)?.asleep ?? false;
  }

  do(...actions: readonly Action[]): void {
    this.actions.push(...actions);
  }

  /**
   * Notes that a machine is woken, before it is: once it is awake its copy goes, and whoever finds neither pod nor copy
   * must know that the machine was awake when its end came.
   */
  wakes(vmName: string): void {
    if (this.waking.size === 0) this.actions.unshift({ kind: "persistStatus" });
    this.waking.add(vmName);
  }

  tell(type: Happening["type"], reason: string, message: string): void {
    this.do({ kind: "tell", happening: { type, reason, message } });
  }

  trouble(reason: string, message: string): void {
    this.troubles.push({ reason, message });
  }

  lookAgain(ms: number): void {
    this.#lookAgainMs = Math.max(0, Math.min(ms, this.#lookAgainMs ?? Infinity));
  }

  finish(phase: SetPhase): SetPlan {
    const { actions, troubles, conditions, digests } = this;
    return {
      actions,
      troubles,
      conditions,
      digests,
      waking: this.waking,
      phase,
      asks: [...this.#asks],
      lookAgainMs: this.#lookAgainMs,
      retry: this.#retry,
    };
  }
}
