/** What an admission requests of the store, and the answer. */
import type { FaultCode } from "@cocoon/core";
import type { Placement, PodShape } from "../nodes/placement.ts";
import type { LiveLook } from "../pods/occupancy.ts";
import type { Entry, OwnerChain } from "./entry.ts";
import type { Held } from "./reservation-index.ts";

export interface ClaimRequest {
  /** Unique to the admission; asking again with the same one gives the same answer. */
  readonly claim: string;
  readonly pool: string;
  readonly ownerChain: OwnerChain;
  /** Empty while the API server has yet to make one up. */
  readonly podName: string;
  /** Of a pod that is named by itself: the ordinal in its StatefulSet. */
  readonly ordinal: number;
  readonly shape: PodShape;
  /** Set when the API server calls about a pod a second time, because another webhook changed it after this one. */
  readonly again?: Again;
  /** Replicas that the owner is meant to have; undefined when not known. */
  readonly desired: () => number | undefined;
  readonly learned: Learned;
}

export interface Again {
  readonly pin: Placement["pin"];
  /** Where the machine ran before this admission; empty for a new one. */
  readonly from: string;
  /** What the pod requests of its node is not what it requested the first time. */
  readonly changed: boolean;
}

interface Learned {
  look?: LiveLook;
  /** Whether the snapshot of a machine is in the registry; false also when the lookup failed. */
  readonly proofs: Map<string, boolean>;
}

export interface Granted {
  readonly entry: Entry;
  readonly placement: Placement;
  readonly from: string;
}

export type Plan =
  | { readonly kind: "held"; readonly granted: Granted; readonly held: Held }
  | {
      readonly kind: "put";
      readonly granted: Granted;
      /** The reservation that is taken over, in its shard; undefined: a new one. */
      readonly replaces: Held | undefined;
    }
  | { readonly kind: "refuse"; readonly code: FaultCode; readonly message: string }
  /** The owner seems to be complete: ask the API server which of its pods are still there. */
  | { readonly kind: "look" }
  /** The node of the slot cannot take the pod: ask the registry whether the machine can start elsewhere. */
  | { readonly kind: "prove"; readonly vmName: string };
