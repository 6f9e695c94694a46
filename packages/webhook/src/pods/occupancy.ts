/** Whether the slot of a reservation is in use. Only facts free a slot: what is not known counts as in use. */
import type { Held } from "../store/reservation-index.ts";
import type { PodIndex } from "./pod-index.ts";
import type { SlimPod } from "./slim-pod.ts";

export type Occupancy =
  /** Taken for a pod that has not been seen yet; it may never come. */
  | { readonly kind: "pending" }
  | { readonly kind: "live" | "terminating" | "finished"; readonly pod: SlimPod }
  /** A pod holds it that this process has not seen: the cache is behind. */
  | { readonly kind: "unseen" }
  | { readonly kind: "gone" };

/** What the API server itself said about the pods of a namespace, when the cache was not enough. */
export interface LiveLook {
  readonly namespace: string;
  readonly uids: ReadonlySet<string>;
  readonly version: bigint;
}

const pending: Occupancy = { kind: "pending" };
const unseen: Occupancy = { kind: "unseen" };
const gone: Occupancy = { kind: "gone" };

export function getOccupancy(held: Held, pods: PodIndex, look?: LiveLook): Occupancy {
  const { entry, seenVersion } = held;
  for (const pod of pods.withVmName(entry.vmName))
    if (!look || look.uids.has(pod.metadata.uid)) return occupiedBy(pod);
    else if (look.version >= BigInt(pod.metadata.resourceVersion || "0")) return gone;
  if (entry.goneSince !== "") return gone;
  if (entry.podUid !== "") {
    const lookedLater = look !== undefined && look.version >= seenVersion && !look.uids.has(entry.podUid);
    return lookedLater || pods.version >= seenVersion ? gone : unseen;
  }
  if (entry.claim !== "") return pods.hasDeparted(entry.claim) ? gone : pending;
  return olderOccupancy({ entry, seenVersion }, pods);
}

function occupiedBy(pod: SlimPod): Occupancy {
  if (pod.metadata.deletionTimestamp !== undefined) return { kind: "terminating", pod };
  return { kind: pod.finished ? "finished" : "live", pod };
}

/** Entries of other implementations know their pod by name alone. */
function olderOccupancy(
  { entry, seenVersion }: Pick<Held, "entry" | "seenVersion">,
  pods: PodIndex,
): Occupancy {
  const pod = pods.named(entry.namespace, entry.pod);
  if (pod) return occupiedBy(pod);
  return pods.version >= seenVersion ? gone : unseen;
}
