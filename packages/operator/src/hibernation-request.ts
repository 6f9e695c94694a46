/** What a CocoonHibernation requests right now. Shared by both controllers, so that they never disagree. */
import { legacyApiGroup, type CocoonHibernation } from "@cocoon/contract";

export type HibernationRequest =
  /** The machine is to sleep, or the way there is to be finished. */
  | "sleep"
  /** A wake was asked for and is not complete. */
  | "wake"
  /** Nothing is asked: what it wanted has been done, or it does not speak about this machine any more. */
  | "none";

/** Kept for a Hibernation of the older API: pods that it hibernates carry the older key too, as its readers expect. */
export function isBridged({ metadata }: { readonly metadata: CocoonHibernation["metadata"] }): boolean {
  return (
    metadata.ownerReferences?.some(({ apiVersion }) => apiVersion.startsWith(`${legacyApiGroup}/`)) ?? false
  );
}

/**
 * A transition that is under way is finished before the opposite one starts. A wake is asked for once: when it was
 * done, a later sleep of the machine (its set is suspended, say) is not undone by an old object.
 */
export function readHibernationRequest({ spec, status, metadata }: CocoonHibernation): HibernationRequest {
  const phase = status?.phase;
  if (metadata.deletionTimestamp !== undefined) {
    const mustWake = spec.deletionPolicy === "Wake" && phase !== undefined && asleepPhases.has(phase);
    return mustWake ? "wake" : "none";
  }
  if (phase === "Waking") return "wake";
  if (phase === "Hibernating") return "sleep";
  if (spec.desire === "Hibernate") return "sleep";
  const done = phase === "Active" && (status?.observedGeneration ?? 0) >= (metadata.generation ?? 0);
  return done ? "none" : "wake";
}

const asleepPhases: ReadonlySet<string> = new Set(["Hibernated", "Hibernating", "Waking"]);
