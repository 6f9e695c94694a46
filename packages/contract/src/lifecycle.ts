/** The desired power state of a machine, and its lifecycle as its kubelet reports it; its three annotations change in one patch. */
import { readFlag, readText, type AnnotationPatch, type Annotations } from "./annotations.ts";
import { annotation, legacyAnnotation } from "./keys.ts";

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
    observedGeneration: parseGeneration(readText(annotations, annotation.lifecycleObservedGeneration)),
    message: readText(annotations, annotation.lifecycleStateMessage),
  };
}

export function isLifecycleState(text: string): text is LifecycleState {
  return (lifecycleStates as readonly string[]).includes(text);
}

/** Missing or unreadable is 0: a generation that no object has. */
function parseGeneration(text: string): number {
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

export function hasReached(status: LifecycleStatus, state: LifecycleState, generation: number): boolean {
  return status.state === state && status.observedGeneration >= generation;
}

/**
 * Whether a report may replace the one that is published.
 *
 *   next generation   published    next                     may replace
 *   lower             any          any                      no: it describes an older generation
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

/** Whether the machine is to hibernate. A hand-set key of the older API counts; the new one wins. */
export function readHibernate(annotations: Annotations): boolean {
  return readFlag(annotations, annotation.hibernate, legacyAnnotation.hibernate);
}

/** Restore the machine from its `hibernate` snapshot instead of booting it; stays for the pod's life. */
export function readRestoreFromHibernate(annotations: Annotations): boolean {
  return readFlag(annotations, annotation.restoreFromHibernate);
}

export function readKeepSnapshotOnDelete(annotations: Annotations): boolean {
  return readFlag(annotations, annotation.keepSnapshotOnDelete);
}

/** The set's generation that the kubelet has to echo; 0 when the pod carries none that can be read. */
export function readGeneration(annotations: Annotations): number {
  return parseGeneration(readText(annotations, annotation.generation));
}
