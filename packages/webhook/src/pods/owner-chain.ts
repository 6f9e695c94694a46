/**
 * Whose machine a pod is.
 *
 *   owner                                  named            machine
 *   ReplicaSet of a Deployment             by slot          vk-<ns>-<deployment>-<slot>
 *   Job, or any other that makes up names  by slot          vk-<ns>-<owner>-<slot>
 *   StatefulSet                            after the pod    vk-<ns>-<pod>, its ordinal is the slot
 *   none                                   after the pod    vk-<ns>-<pod>
 *
 * Pods of an agent-sandbox Sandbox are named after its uid and have no reservation (`sticky.ts`).
 */
import { tryParseSlot } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { OwnerReference, Pod } from "@cocoon/kube";
import type { OwnerChain } from "../store/entry.ts";

const templateHash = "pod-template-hash";

export interface OwnerChainOptions {
  readonly namespace: string;
  /** The name in the request to the API server. */
  readonly requestName: string;
  readonly deploymentUid: (namespace: string, name: string) => string;
}

export function readOwnerChain(
  pod: Pod,
  options: OwnerChainOptions,
): { readonly ownerChain: OwnerChain; readonly podName: string; readonly ordinal: number } {
  const { namespace, requestName } = options;
  const podName = pod.metadata.name || requestName;
  const owner = findOwner(pod);
  if (owner?.kind === "ReplicaSet") {
    const deployment = findDeployment(pod, owner);
    const slotOwner =
      deployment === undefined
        ? { kind: owner.kind, name: owner.name, uid: owner.uid }
        : { kind: "Deployment", name: deployment, uid: options.deploymentUid(namespace, deployment) };
    return { ownerChain: { namespace, owner: slotOwner, form: "slot" }, podName, ordinal: 0 };
  }
  if (podName === "") return { ownerChain: namelessOwnerChain(namespace, owner), podName, ordinal: 0 };
  if (owner?.kind === "Job")
    return { ownerChain: { namespace, owner: identity(owner), form: "slot" }, podName, ordinal: 0 };
  const podOwner = owner ? identity(owner) : { kind: "Pod", name: podName, uid: "" };
  const ordinal = owner?.kind === "StatefulSet" ? parseOrdinal(podName, owner.name) : 0;
  return { ownerChain: { namespace, owner: podOwner, form: "pod" }, podName, ordinal };
}

function namelessOwnerChain(namespace: string, owner: OwnerReference | undefined): OwnerChain {
  if (owner) return { namespace, owner: identity(owner), form: "slot" };
  throw new Fault(
    "invalid",
    "a machine's pod needs a name: set metadata.name instead of metadata.generateName, or let a Deployment, StatefulSet or Job make it",
  );
}

function identity({ kind, name, uid }: OwnerReference): OwnerChain["owner"] {
  return { kind, name, uid: uid ?? "" };
}

/** The controller; without one, the first ReplicaSet, as older versions went by. */
function findOwner({ metadata: { ownerReferences } }: Pod): OwnerReference | undefined {
  const owners = ownerReferences ?? [];
  return (
    owners.find(({ controller }) => controller === true) ?? owners.find(({ kind }) => kind === "ReplicaSet")
  );
}

/** A ReplicaSet of a Deployment is called `<deployment>-<hash>`, and its pods carry that hash. */
function findDeployment({ metadata: { labels } }: Pod, { name }: OwnerReference): string | undefined {
  const dash = name.lastIndexOf("-");
  if (dash <= 0) return undefined;
  const hash = labels?.[templateHash];
  return hash === undefined || name.slice(dash + 1) === hash ? name.slice(0, dash) : undefined;
}

function parseOrdinal(podName: string, set: string): number {
  return podName.startsWith(`${set}-`) ? (tryParseSlot(podName.slice(set.length + 1)) ?? 0) : 0;
}
