/** What the watch showed of terminating or gone pods, by uid: it distinguishes a requested deletion from a missing pod. */
import { getKey, keyText, type ObjectKey } from "@cocoon/kube";
import type { Change } from "@cocoon/kube/controller";
import type { Pod } from "../provider.ts";

interface SeenDeletion {
  readonly pod: Pod;
  /** A deletion that gives the kubelet time to act. */
  readonly requested: boolean;
  readonly inferred: boolean;
  readonly started: boolean;
}

export class SeenDeletions {
  readonly #byUid = new Map<string, SeenDeletion>();

  note(change: Change<Pod>): void {
    const { object: pod } = change;
    const { uid } = pod.metadata;
    const isDeleted = change.kind === "deleted";
    if (uid === undefined) return;
    // A deletion is never taken back: a pod that no longer shows it comes from a storage that was restored to before it.
    if (!isDeleted && !pod.metadata.deletionTimestamp) return void this.#byUid.delete(uid);
    const inferred = isDeleted && (change.inferred ?? false);
    const before = this.#byUid.get(uid);
    const requested = (before?.requested ?? false) || isDeletionRequested(pod);
    this.#byUid.set(uid, { pod, requested, inferred, started: before?.started ?? false });
  }

  markStarted(pod: Pod): void {
    const { uid } = pod.metadata;
    if (uid === undefined) return;
    const before = this.#byUid.get(uid) ?? { pod, requested: true, inferred: false };
    this.#byUid.set(uid, { ...before, started: true });
  }

  get({ metadata: { uid } }: Pod): SeenDeletion | undefined {
    return uid === undefined ? undefined : this.#byUid.get(uid);
  }

  forgetOthers(key: ObjectKey, uid: string | undefined): void {
    for (const [each, { pod }] of this.#byUid)
      if (each !== uid && keyText(getKey(pod)) === keyText(key)) this.#byUid.delete(each);
  }
}

/** A deletion with grace period 0 removes the pod at once; it is a request only where that is the pod's own grace period. */
export function isDeletionRequested({ metadata, spec }: Pod): boolean {
  if (!metadata.deletionTimestamp) return false;
  return metadata.deletionGracePeriodSeconds !== 0 || spec.terminationGracePeriodSeconds === 0;
}

/** The pod garbage collector removes pods of nodes that are gone or out of service. */
export function isCollected(pod: Pod): boolean {
  return (
    pod.status?.conditions?.some(
      ({ type, status, reason }) =>
        type === "DisruptionTarget" && status === "True" && reason === "DeletionByPodGC",
    ) ?? false
  );
}
