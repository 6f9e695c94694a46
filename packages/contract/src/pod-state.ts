/**
 * What a pod's object says about its machine. All functions are pure and take the pod as the API server sends it;
 * fields that are missing read as "no".
 */
import type { Annotations } from "./annotations.ts";
import { readText } from "./annotations.ts";
import { annotation, hostTaint, legacyAnnotation } from "./keys.ts";
import { roleOfSlot, slotOf, type Role } from "./vm-name.ts";

type Texts = Readonly<Record<string, string>>;

/** The parts of a pod that the contract speaks about. */
export interface PodLike {
  readonly metadata: {
    readonly name?: string | undefined;
    readonly namespace?: string | undefined;
    readonly labels?: Texts | undefined;
    readonly annotations?: Annotations;
    readonly ownerReferences?:
      | readonly { readonly kind: string; readonly name: string; readonly apiVersion?: string }[]
      | undefined;
  };
  readonly spec?:
    | {
        readonly nodeSelector?: Texts | undefined;
        readonly tolerations?: readonly { readonly key?: string | undefined }[] | undefined;
      }
    | undefined;
  readonly status?:
    | {
        readonly phase?: string | undefined;
        readonly conditions?: readonly { readonly type: string; readonly status: string }[] | undefined;
        readonly containerStatuses?:
          | readonly { readonly state?: { readonly running?: unknown } | undefined }[]
          | undefined;
      }
    | undefined;
}

/** `namespace/name`. */
export function podKey(pod: PodLike): string {
  return `${pod.metadata.namespace ?? ""}/${pod.metadata.name ?? ""}`;
}

/** A toleration with the host taint's key makes a pod a machine; operator, value and effect do not matter. */
export function isMachinePod(pod: PodLike): boolean {
  return pod.spec?.tolerations?.some((toleration) => toleration.key === hostTaint.key) ?? false;
}

/** The set that owns the pod: the first owner reference of kind CocoonSet, of whichever API group. */
export function ownerSet(pod: PodLike): string | undefined {
  return pod.metadata.ownerReferences?.find((owner) => owner.kind === "CocoonSet")?.name || undefined;
}

/** The slot of the pod's machine in its set; undefined for toolboxes and pods without a set. */
export function slotOfPod(pod: PodLike): number | undefined {
  const set = ownerSet(pod);
  if (set === undefined) return undefined;
  const vm = readText(pod.metadata.annotations, annotation.vmName, legacyAnnotation.vmName);
  return slotOf({ namespace: pod.metadata.namespace ?? "", set }, vm);
}

/** Without an owning set every pod counts as toolbox, as upstream decides it. */
export function roleOfPod(pod: PodLike): Role {
  return roleOfSlot(slotOfPod(pod));
}

export function isPodReady(pod: PodLike): boolean {
  return (
    pod.status?.conditions?.some((condition) => condition.type === "Ready" && condition.status === "True") ??
    false
  );
}

/** Failed only: a pod that Succeeded is not terminal for a machine. */
export function isPodTerminal(pod: PodLike): boolean {
  return pod.status?.phase === "Failed";
}

export function isContainerRunning(pod: PodLike): boolean {
  return pod.status?.containerStatuses?.some((container) => Boolean(container.state?.running)) ?? false;
}

/** The machine runs as far as the pod tells: it has an id and a running container. Not proof of a finished wake. */
export function isVmLive(pod: PodLike): boolean {
  const id = readText(pod.metadata.annotations, annotation.vmId, legacyAnnotation.vmId);
  return id !== "" && isContainerRunning(pod);
}
