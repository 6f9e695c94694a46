/**
 * Pods of kubernetes-sigs/agent-sandbox. A Sandbox is known by its uid: it survives suspension, resumption and adoption from a
 * warm pool, its pods do not. So its machine is named after the uid, and not after the pod.
 */
import type { PodLike } from "../pod-state.ts";
import { podVmName } from "../vm-name.ts";
import { sandboxHash } from "./keys.ts";

export const sandboxKind = {
  group: "agents.x-k8s.io",
  version: "v1beta1",
  kind: "Sandbox",
  plural: "sandboxes",
} as const;

/** Keeps a Sandbox until the snapshot that its machine is hibernated in was settled. Set before the first push. */
export const sandboxFinalizer = "vm.cocoonstack.io/sandbox-snapshot";

/** On a Sandbox: the node that made its VM last, and when. Written before the VM exists. */
export const sandboxNodeAnnotation = "vm.cocoonstack.io/sandbox-node";

/** On a Sandbox that took over another one's pod: `<its uid>/<VM name>`. With the uid, a copied annotation says nothing. */
export const sandboxMachineAnnotation = "vm.cocoonstack.io/sandbox-machine";

/** Keeps a PodSnapshot until its tag was removed from the registry. */
export const podSnapshotFinalizer = "vm.cocoonstack.io/pod-snapshot";

export interface SandboxReference {
  readonly name: string;
  readonly uid: string;
}

/** The Sandbox that controls the pod. Compared by group and kind: old references name older versions. */
export function findSandboxOwner({ metadata }: Pick<PodLike, "metadata">): SandboxReference | undefined {
  const owner = metadata.ownerReferences?.find(
    ({ apiVersion = "", kind, controller }) =>
      controller === true && kind === sandboxKind.kind && apiVersion.startsWith(`${sandboxKind.group}/`),
  );
  return owner?.uid ? { name: owner.name, uid: owner.uid } : undefined;
}

/** VM names have at most 63 characters: a long namespace is replaced by its hash, so that it stays part of the name. */
const maxVmName = 63;

export function sandboxVmName(namespace: string, uid: string): string {
  const plain = podVmName(namespace, `sbx-${uid}`);
  if (plain.length <= maxVmName) return plain;
  const reversed = namespace.split("").toReversed().join("");
  return `sbx-${sandboxHash(namespace)}${sandboxHash(reversed)}-${uid}`;
}

interface SandboxLike {
  readonly metadata: Pick<PodLike["metadata"], "namespace" | "annotations"> & {
    readonly uid?: string | undefined;
  };
}

const uidLength = 36;

/** The name is that of a Sandbox's machine in this namespace. It ends with the Sandbox's uid. */
export function isSandboxVmName(namespace: string, name: string): boolean {
  return name === sandboxVmName(namespace, name.slice(-uidLength));
}

/** The machine of a Sandbox: named after it, or the one that it took over. */
export function readSandboxMachine({ metadata }: SandboxLike): string {
  const { namespace = "", uid = "", annotations } = metadata;
  const [recordedFor, name = ""] = (annotations?.[sandboxMachineAnnotation] ?? "").split("/");
  return recordedFor === uid && isSandboxVmName(namespace, name) ? name : sandboxVmName(namespace, uid);
}
