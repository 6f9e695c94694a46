/**
 * The lifecycle of a machine as its kubelet reports it: state, the set generation it refers to, and a reason. The
 * three annotations change in one patch. Both controllers and every waiting client read it.
 */
import { readText, type AnnotationPatch, type Annotations } from "./annotations.ts";
import { annotation } from "./keys.ts";

export const lifecycleStates = ["creating", "ready", "hibernating", "hibernated", "failed"] as const;
export type LifecycleState = (typeof lifecycleStates)[number];

export interface LifecycleStatus {
  /** "" when nothing was reported yet, or a text of a newer version that this one does not know. */
  readonly state: LifecycleState | "";
  readonly observedGeneration: number;
  readonly message: string;
}

export function readLifecycle(annotations: Annotations): LifecycleStatus {
  const state = readText(annotations, annotation.lifecycleState);
  return {
    state: isLifecycleState(state) ? state : "",
    observedGeneration: readGenerationText(readText(annotations, annotation.lifecycleObservedGeneration)),
    message: readText(annotations, annotation.lifecycleStateMessage),
  };
}

export function isLifecycleState(text: string): text is LifecycleState {
  return (lifecycleStates as readonly string[]).includes(text);
}

/** Missing or unreadable is 0: a generation that no object has. */
function readGenerationText(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** A merge patch with all three keys; an empty message is sent as null so that a stale reason disappears. */
export function lifecyclePatch(status: LifecycleStatus): AnnotationPatch {
  return {
    metadata: {
      annotations: {
        [annotation.lifecycleState]: status.state,
        [annotation.lifecycleObservedGeneration]: String(status.observedGeneration),
        [annotation.lifecycleStateMessage]: status.message === "" ? null : status.message,
      },
    },
  };
}

/** Somebody who waits for a machine may stop waiting in these states. */
export function isSettled(state: LifecycleStatus["state"]): boolean {
  return state === "ready" || state === "hibernated" || state === "failed";
}

/** Equal keys mean equal reports. NUL cannot occur in an annotation, so no two reports share a key. */
export function lifecycleKey({ state, observedGeneration, message }: LifecycleStatus): string {
  return `${state}\0${observedGeneration}\0${message}`;
}

/** Whether the machine reached a state for this generation or a later one. */
export function hasReached(status: LifecycleStatus, state: LifecycleState, generation: number): boolean {
  return status.state === state && status.observedGeneration >= generation;
}

/**
 * Whether a report may replace the one that is published.
 *
 *   next generation   published    next                     may replace
 *   lower             any          any                      no: it describes an older wish
 *   higher            any          any                      yes
 *   same              failed       creating, hibernating    yes: a new attempt
 *   same              failed       failed                   yes: a better reason
 *   same              failed       ready, hibernated        no: failures are sticky
 *   same              other        any                      yes
 */
export function mayReplace(published: LifecycleStatus, next: LifecycleStatus): boolean {
  if (next.observedGeneration !== published.observedGeneration)
    return next.observedGeneration > published.observedGeneration;
  if (published.state !== "failed") return true;
  return next.state === "creating" || next.state === "hibernating" || next.state === "failed";
}
