/** One pod on this node: what is known of it, and a queue so that only one thing happens to it at a time. */
import type { ObjectKey } from "@cocoon/kube";
import type { Pod } from "@cocoon/kubelet";
import type { PodWriter } from "../pod-writer.ts";
import type { Showing } from "./status.ts";

/** Streams of users into the guest. */
export interface GuestUse {
  open: number;
  /** Grows whenever a stream ends, by what it carried where that is known. */
  carried: number;
}

export class Seat {
  readonly key: ObjectKey;
  readonly uid: string;
  writer: PodWriter;
  showing: Showing | undefined;
  /** The last attempt failed: the pod must be handed over again although it did not change. */
  failed = false;
  restarts = 0;
  lastStartMs = -Infinity;
  /** The last copy that this process made of the machine; one of an earlier process may be old by now. */
  readonly saved: { id: string | undefined } = { id: undefined };
  readonly use: GuestUse = { open: 0, carried: 0 };
  /** The VM (id and epoch) that is being probed. */
  probed = "";
  probing: AbortController | undefined;
  /** Its liveness probes run. */
  keptAlive = false;
  /** The VM after whose readiness the registry was cleaned up. */
  finished = "";
  ended = false;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(pod: Pod, writer: PodWriter) {
    this.key = { namespace: pod.metadata.namespace, name: pod.metadata.name ?? "" };
    this.uid = pod.metadata.uid ?? "";
    this.writer = writer;
  }

  /** Runs after everything that was asked for before. */
  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#tail.then(work);
    this.#tail = turn.catch(() => undefined);
    return turn;
  }

  stopProbing(): void {
    this.probing?.abort();
    this.probing = undefined;
    this.keptAlive = false;
    this.probed = "";
  }
}
