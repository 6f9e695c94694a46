/** The fields of a pod that a machine is read from. The pod types of the API client and of the kubelet both fit. */
import type { PodLike } from "@cocoon/contract";

export interface MachinePod extends Omit<PodLike, "metadata" | "spec" | "status"> {
  readonly metadata: PodLike["metadata"] & {
    readonly uid?: string | undefined;
    readonly deletionTimestamp?: string | undefined;
  };
  readonly spec?: { readonly nodeName?: string | undefined } | undefined;
  readonly status?:
    | (Omit<NonNullable<PodLike["status"]>, "conditions"> & {
        readonly conditions?: readonly MachineCondition[] | undefined;
      })
    | undefined;
}

interface MachineCondition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
}
