/** What the controller of sets works with. */
import type { Logger } from "@cocoon/core";
import type { CacheIndex, KubeClient, Node, ObjectCache, Pod } from "@cocoon/kube";
import type { EventRecorder, OwnWrites } from "@cocoon/kube/controller";
import type { MachineSnapshots } from "@cocoon/machine";
import type { CustomObject } from "../kinds.ts";
import type { OperatorMetrics } from "../metrics.ts";
import type { DeletionJobs } from "./deletion-jobs.ts";

/** What the controllers use of machines' snapshots in the registry. */
export type Snapshots = Pick<
  MachineSnapshots,
  "findHibernatedDigest" | "drop" | "release" | "settle" | "expire" | "adopt"
>;

export interface SetParts {
  readonly client: KubeClient;
  /** Sets and pods with our own writes laid over the caches. */
  readonly sets: OwnWrites<CustomObject>;
  readonly pods: OwnWrites<Pod>;
  readonly podsByOwner: Pick<CacheIndex<Pod>, "get">;
  readonly podsByNode: Pick<CacheIndex<Pod>, "get">;
  readonly podsByVmName: Pick<CacheIndex<Pod>, "get">;
  /** By `namespace/pod`. */
  readonly hibernationsByPod: Pick<CacheIndex<CustomObject>, "get">;
  readonly grants: Pick<ObjectCache<CustomObject>, "list">;
  readonly nodes: Pick<ObjectCache<Node>, "get">;
  /** By the names of the VMs that they hold. */
  readonly nodesByMachine: Pick<CacheIndex<Node>, "get">;
  readonly snapshots: Snapshots;
  readonly deletions: DeletionJobs;
  readonly events: EventRecorder;
  readonly metrics: OperatorMetrics;
  readonly log: Logger;
  readonly now: () => Date;
  /** Aborts when the controllers stop. */
  readonly signal: AbortSignal;
  /** When the snapshots of each set were last looked through, by uid. */
  readonly expiredAt: Map<string, number>;
  /** How long a set may be on its way before its status says so: most arrive before, and save a write. */
  readonly statusDelayMs: number;
}
