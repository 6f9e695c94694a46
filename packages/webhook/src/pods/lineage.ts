/**
 * Whose machine a pod is.
 *
 *   owner                                  named            machine
 *   ReplicaSet of a Deployment             by slot          vk-<ns>-<deployment>-<slot>
 *   Job, or any other that makes up names  by slot          vk-<ns>-<owner>-<slot>
 *   StatefulSet                            after the pod    vk-<ns>-<pod>, its ordinal is the slot
 *   none                                   after the pod    vk-<ns>-<pod>
 */
import { tryParseSlot } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { OwnerReference, Pod } from "@cocoon/kube";
import type { Lineage } from "../store/entry.ts";

const templateHash = "pod-template-hash";

export interface PodLineage {
  readonly lineage: Lineage;
  readonly podName: string;
  readonly ordinal: number;
}

export interface LineageOptions {
  readonly namespace: string;
  /** The name that the API server was asked for. */
  readonly requestName: string;
  /** uid of a Deployment, where it is known. */
  readonly deploymentUid: (namespace: string, name: string) => string;
}

export function lineageOfPod(pod: Pod, options: LineageOptions): PodLineage {
  const { namespace, requestName } = options;
  const podName = pod.metadata.name || requestName;
  const owner = ownerOf(pod);
  if (owner?.kind === "ReplicaSet") {
    const deployment = deploymentOf(pod, owner);
    const slotOwner =
      deployment === undefined
        ? { kind: owner.kind, name: owner.name, uid: owner.uid }
        : { kind: "Deployment", name: deployment, uid: options.deploymentUid(namespace, deployment) };
    return { lineage: { namespace, owner: slotOwner, form: "slot" }, podName, ordinal: 0 };
  }
  if (podName === "") return { lineage: namelessLineage(namespace, owner), podName, ordinal: 0 };
  if (owner?.kind === "Job")
    return { lineage: { namespace, owner: identity(owner), form: "slot" }, podName, ordinal: 0 };
  const podOwner = owner ? identity(owner) : { kind: "Pod", name: podName, uid: "" };
  const ordinal = owner?.kind === "StatefulSet" ? ordinalOf(podName, owner.name) : 0;
  return { lineage: { namespace, owner: podOwner, form: "pod" }, podName, ordinal };
}

function namelessLineage(namespace: string, owner: OwnerReference | undefined): Lineage {
  if (owner) return { namespace, owner: identity(owner), form: "slot" };
  throw new Fault(
    "invalid",
    "a machine's pod needs a name: set metadata.name instead of metadata.generateName, or let a Deployment, StatefulSet or Job make it",
  );
}

function identity({ kind, name, uid }: OwnerReference): Lineage["owner"] {
  return { kind, name, uid: uid ?? "" };
}

/** The controller; without one, the first ReplicaSet, as older versions went by. */
function ownerOf({ metadata: { ownerReferences } }: Pod): OwnerReference | undefined {
  const owners = ownerReferences ?? [];
  return (
    owners.find(({ controller }) => controller === true) ?? owners.find(({ kind }) => kind === "ReplicaSet")
  );
}

/** A ReplicaSet of a Deployment is called `<deployment>-<hash>`, and its pods carry that hash. */
function deploymentOf({ metadata: { labels } }: Pod, { name }: OwnerReference): string | undefined {
  const dash = name.lastIndexOf("-");
  if (dash <= 0) return undefined;
  const hash = labels?.[templateHash];
  return hash === undefined || name.slice(dash + 1) === hash ? name.slice(0, dash) : undefined;
}

function ordinalOf(podName: string, set: string): number {
  return podName.startsWith(`${set}-`) ? (tryParseSlot(podName.slice(set.length + 1)) ?? 0) : 0;
}
