/**
 * What the store should say about one reservation, from what is known of its pod. Pure; the reaper applies it.
 *
 *   its pod is there                      bound to it: name, uid, node
 *   its pod is gone                       since when
 *   gone for longer than the grace        released
 *   claimed, and the pod never came       gone as before the claim, or released
 */
import type { Occupancy } from "../pods/occupancy.ts";
import type { SlimPod } from "../pods/slim-pod.ts";
import { beforeClaim, type Entry } from "../store/entry.ts";

export interface Graces {
  /** How long a slot is kept after its pod has gone. */
  readonly goneMs: number;
  /** How long a claim waits for its pod. */
  readonly unboundMs: number;
}

export type EntryChange =
  | { readonly kind: "none" }
  | { readonly kind: "write"; readonly entry: Entry }
  /** To be done only when the API server itself says that there is no such pod. */
  | { readonly kind: "release"; readonly why: "gone" | "unbound" }
  | { readonly kind: "fallBack"; readonly entry: Entry };

const none: EntryChange = { kind: "none" };

export function planChange(
  entry: Entry,
  occupancy: Occupancy,
  { now, goneMs, unboundMs }: Graces & { readonly now: Date },
): EntryChange {
  switch (occupancy.kind) {
    case "live":
    case "terminating":
    case "finished":
      return bind(entry, occupancy.pod);
    case "unseen":
      return none;
    case "pending":
      return ageMs(entry.updatedAt, now) < unboundMs ? none : abandon(entry);
    default:
      if (entry.goneSince === "") return { kind: "write", entry: { ...entry, goneSince: now.toISOString() } };
      return ageMs(entry.goneSince, now) < goneMs ? none : { kind: "release", why: "gone" };
  }
}

function bind(entry: Entry, pod: SlimPod): EntryChange {
  const { name, uid } = pod.metadata;
  const node = pod.nodeName || entry.node;
  const isBound = entry.podUid === uid && entry.pod === name && entry.node === node && entry.goneSince === "";
  if (isBound) return none;
  const claim = pod.claim || entry.claim;
  return {
    kind: "write",
    entry: { ...entry, pod: name, podUid: uid, node, claim, goneSince: "", lastGone: "" },
  };
}

function abandon(entry: Entry): EntryChange {
  const before = beforeClaim(entry);
  return before ? { kind: "fallBack", entry: before } : { kind: "release", why: "unbound" };
}

/** A time that cannot be read is taken for long ago. */
function ageMs(since: string, now: Date): number {
  const at = Date.parse(since);
  return Number.isNaN(at) ? Infinity : now.getTime() - at;
}
