/** What the bridge of the older API works with. */
import type { Logger } from "@cocoon/core";
import type { CacheIndex, KubeClient, Pod } from "@cocoon/kube";
import type { OwnWrites } from "@cocoon/kube/controller";
import type { CustomObject } from "../kinds.ts";
import type { Snapshots } from "../snapshot-store.ts";

export interface BridgeParts {
  readonly client: KubeClient;
  readonly legacySets: OwnWrites<CustomObject>;
  readonly legacyHibernations: OwnWrites<CustomObject>;
  /** By `namespace/pod`. */
  readonly legacyHibernationsByPod: CacheIndex<CustomObject>;
  readonly sets: OwnWrites<CustomObject>;
  readonly hibernations: OwnWrites<CustomObject>;
  readonly pods: OwnWrites<Pod>;
  readonly snapshots: Snapshots;
  /** Address of the registry, as references of snapshots begin. */
  readonly registryAddress: string;
  readonly log: Logger;
  readonly now: () => Date;
}
