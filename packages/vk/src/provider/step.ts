/** The steps that a plan can return. */
import type { LifecycleState } from "@cocoon/contract";
import type { HibernatedSnapshot } from "@cocoon/machine";

export interface Refusal {
  readonly kind: "refuse";
  readonly reason: string;
  readonly message: string;
  /** Another component is expected to change that: retry soon. */
  readonly waits?: boolean;
}

export type Step =
  | { readonly kind: "settled" }
  /** Nothing to do now; retry with back-off. */
  | { readonly kind: "wait"; readonly why: string }
  | Refusal
  | { readonly kind: "showStatic" }
  | { readonly kind: "showAsleep" }
  | { readonly kind: "announce"; readonly state: LifecycleState }
  | { readonly kind: "dropLocal" }
  /** Of a VM that still runs: so that it is paused only for what it changes from here on. */
  | { readonly kind: "pushAhead"; readonly vmId: string }
  /** `disksOnly`: of a VM that does not run, which has no memory to save. */
  | { readonly kind: "save"; readonly vmId: string; readonly disksOnly?: true }
  | { readonly kind: "push" }
  | { readonly kind: "pushLatest" }
  | { readonly kind: "record"; readonly digest: string }
  | { readonly kind: "clearId" }
  | { readonly kind: "remove"; readonly vmId: string }
  | { readonly kind: "seal"; readonly digest: string }
  | { readonly kind: "resume"; readonly vmId: string }
  | { readonly kind: "start"; readonly vmId: string }
  /** Its VM ended before it was ready and all of it was here: it goes, and is restored once more. */
  | { readonly kind: "wakeAgain"; readonly vmId: string }
  | { readonly kind: "removeClaim"; readonly node: string }
  | { readonly kind: "claim"; readonly digest: string }
  | { readonly kind: "restore"; readonly snapshot: HibernatedSnapshot }
  | { readonly kind: "cloneFromDir"; readonly directory: string }
  | { readonly kind: "fork"; readonly source: string }
  | { readonly kind: "run" }
  | { readonly kind: "clone" }
  | { readonly kind: "decideMode" }
  | { readonly kind: "probe" }
  | { readonly kind: "publish" }
  | { readonly kind: "setEnvironment" }
  /** A member of a warm pool: it costs no CPU time until it is used. */
  | { readonly kind: "pause"; readonly vmId: string }
  | { readonly kind: "clearPaused" }
  /** The machine continues; the snapshot gets a name of its own. */
  | { readonly kind: "saveNamed"; readonly vmId: string; readonly name: string }
  /** Before it wakes: what it is hibernated in is renamed, and a snapshot of its own takes that place. */
  | { readonly kind: "rewind"; readonly name: string }
  /** The pod was taken over by another Sandbox: the machine becomes its. */
  | { readonly kind: "takeOver" }
  /** A pod of a Sandbox that took its machine over: it continues under the machine's name. */
  | { readonly kind: "takeName"; readonly vmName: string }
  | { readonly kind: "announceLocal" }
  | { readonly kind: "dropTag"; readonly digest: string }
  | { readonly kind: "releaseTag"; readonly digest: string }
  /** Of a Sandbox that ended. */
  | { readonly kind: "settleSnapshots" }
  | { readonly kind: "reportSnapshot"; readonly digest: string }
  | { readonly kind: "clearDigest" };

export const settled: Step = { kind: "settled" };

export type StepOf<K extends Step["kind"]> = Extract<Step, { kind: K }>;
