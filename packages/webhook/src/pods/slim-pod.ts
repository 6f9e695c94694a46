/** A pod as the caches keep it: the few fields that placement and reservations go by. */
import { annotation, hostTaint, readText } from "@cocoon/contract";
import type { KubeObject, Pod } from "@cocoon/kube";
import { findController } from "@cocoon/kube/controller";
import { computeRequests, type Amounts } from "@cocoon/kube/scheduling";

export interface SlimObject extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
  };
}

export function slimMetadata({ metadata }: KubeObject): SlimObject["metadata"] {
  const { name = "", namespace = "", uid = "", resourceVersion = "", deletionTimestamp } = metadata;
  return { name, namespace, uid, resourceVersion, ...(deletionTimestamp ? { deletionTimestamp } : {}) };
}

export interface SlimPod extends SlimObject {
  readonly isMachine: boolean;
  readonly vmName: string;
  readonly claim: string;
  readonly nodeName: string;
  readonly finished: boolean;
  readonly owner: { readonly kind: string; readonly name: string; readonly uid: string } | undefined;
  readonly requests: Amounts;
}

const nothing: Amounts = {};

export function readSlimPod(object: KubeObject): SlimPod {
  const pod = object as Pod;
  const phase = pod.status?.phase;
  const finished = phase === "Succeeded" || phase === "Failed";
  return {
    metadata: slimMetadata(pod),
    ...machineFacts(pod),
    nodeName: pod.spec?.nodeName ?? "",
    finished,
    requests: finished || !pod.spec ? nothing : computeRequests(pod.spec),
  };
}

type MachineFacts = Pick<SlimPod, "isMachine" | "vmName" | "claim" | "owner">;
const noMachine: MachineFacts = { isMachine: false, vmName: "", claim: "", owner: undefined };

function machineFacts(pod: Pod): MachineFacts {
  if (!pod.spec?.tolerations?.some(({ key }) => key === hostTaint.key)) return noMachine;
  const { annotations } = pod.metadata;
  const controller = findController(pod);
  return {
    isMachine: true,
    vmName: readText(annotations, annotation.vmName),
    claim: readText(annotations, annotation.reservation),
    owner: controller && { kind: controller.kind, name: controller.name, uid: controller.uid },
  };
}
