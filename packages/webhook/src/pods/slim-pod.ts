/** A pod as the caches keep it: the few fields that placement and reservations go by. */
import { annotation, hostTaint, readText } from "@cocoon/contract";
import type { KubeObject, Pod } from "@cocoon/kube";
import { controllerOf } from "@cocoon/kube/controller";
import { requestsOf, type Amounts } from "../nodes/amounts.ts";

export interface SlimPod extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly deletionTimestamp?: string;
  };
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
  const { name = "", namespace = "", uid = "", resourceVersion = "", deletionTimestamp } = pod.metadata;
  const phase = pod.status?.phase;
  const finished = phase === "Succeeded" || phase === "Failed";
  return {
    metadata: { name, namespace, uid, resourceVersion, ...(deletionTimestamp ? { deletionTimestamp } : {}) },
    ...machineFacts(pod),
    nodeName: pod.spec?.nodeName ?? "",
    finished,
    requests: finished || !pod.spec ? nothing : requestsOf(pod.spec),
  };
}

type MachineFacts = Pick<SlimPod, "isMachine" | "vmName" | "claim" | "owner">;
const noMachine: MachineFacts = { isMachine: false, vmName: "", claim: "", owner: undefined };

function machineFacts(pod: Pod): MachineFacts {
  if (!pod.spec?.tolerations?.some(({ key }) => key === hostTaint.key)) return noMachine;
  const { annotations } = pod.metadata;
  const controller = controllerOf(pod);
  return {
    isMachine: true,
    vmName: readText(annotations, annotation.vmName),
    claim: readText(annotations, annotation.reservation),
    owner: controller && { kind: controller.kind, name: controller.name, uid: controller.uid },
  };
}
