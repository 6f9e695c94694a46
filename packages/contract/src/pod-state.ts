/** What a pod's object says about its machine; fields that are missing read as "no". */
import { readText, type Annotations } from "./annotations.ts";
import { annotation, hostTaint, label, legacyAnnotation, legacyLabel, nodeLabel } from "./keys.ts";
import { findSlot, isRole, getSlotRole, tryParseSlot, type Member, type Role } from "./vm-name.ts";

type Texts = Readonly<Record<string, string>>;

/** The parts of a pod that the contract speaks about. */
export interface PodLike {
  readonly metadata: {
    readonly name?: string | undefined;
    readonly namespace?: string | undefined;
    readonly labels?: Texts | undefined;
    readonly annotations?: Annotations;
    readonly ownerReferences?:
      | readonly {
          readonly kind: string;
          readonly name: string;
          readonly apiVersion?: string | undefined;
          readonly uid?: string | undefined;
          readonly controller?: boolean | undefined;
        }[]
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

/** A toleration with the host taint's key makes a pod a machine; operator, value and effect do not matter. */
export function isMachinePod(pod: PodLike): boolean {
  return pod.spec?.tolerations?.some((toleration) => toleration.key === hostTaint.key) ?? false;
}

/** The case of the annotation does not matter, as older readers compare it. */
export function isWindowsPod(pod: PodLike): boolean {
  return readText(pod.metadata.annotations, annotation.os, legacyAnnotation.os).toLowerCase() === "windows";
}

/** The set that owns the pod: the first owner reference of kind CocoonSet, of whichever API group. */
export function ownerSet(pod: PodLike): string | undefined {
  return pod.metadata.ownerReferences?.find((owner) => owner.kind === "CocoonSet")?.name || undefined;
}

/** The slot of the pod's machine in its set; undefined for toolboxes and pods without a set. */
export function findPodSlot(pod: PodLike): number | undefined {
  const set = ownerSet(pod);
  if (set === undefined) return undefined;
  const vm = readText(pod.metadata.annotations, annotation.vmName, legacyAnnotation.vmName);
  return findSlot({ namespace: pod.metadata.namespace ?? "", set }, vm);
}

/** Without an owning set every pod counts as toolbox, as upstream decides it. */
export function getPodRole(pod: PodLike): Role {
  return getSlotRole(findPodSlot(pod));
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

export interface MachineLabels {
  readonly set: string;
  readonly role: Role;
  readonly member: Member;
}

/** Undefined when the pod is no machine of a set, or its labels contradict each other. */
export function readMachineLabels(labels: Texts | undefined): MachineLabels | undefined {
  const set = readText(labels, label.set, legacyLabel.set);
  const role = readText(labels, label.role, legacyLabel.role);
  const slot = readText(labels, label.slot, legacyLabel.slot);
  if (set === "" || slot === "" || !isRole(role)) return undefined;
  if (role === "toolbox") return { set, role, member: slot };
  const member = tryParseSlot(slot);
  if (member === undefined || (role === "main") !== (member === 0)) return undefined;
  return { set, role, member };
}

export const defaultPool = "default";

/** The pool of VM hosts that a pod requests: node selector, then label, then annotation; the first that is not empty. */
export function readPool(pod: PodLike): string {
  return (
    pod.spec?.nodeSelector?.[nodeLabel.pool] ||
    pod.metadata.labels?.[nodeLabel.pool] ||
    pod.metadata.annotations?.[nodeLabel.pool] ||
    defaultPool
  );
}
