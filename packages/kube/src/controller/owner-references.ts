/** Who owns whom. An owner is its UID: a new object of the same name owns nothing of the old one. */
import { Fault } from "@cocoon/core";
import { apiVersionOf, type KubeObject, type OwnerReference, type ResourceType } from "../object.ts";

/** The reference that makes `owner` the managing owner of something. */
export function controllerReference(type: ResourceType<KubeObject>, owner: KubeObject): OwnerReference {
  const { name, uid } = owner.metadata;
  if (!name || !uid) throw new Fault("invalid", `a ${type.kind} without name and uid cannot own anything`);
  return {
    apiVersion: apiVersionOf(type),
    kind: type.kind,
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

/** The managing owner, if there is one. */
export function controllerOf(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((reference) => reference.controller === true);
}

export function isControlledBy(object: KubeObject, owner: KubeObject): boolean {
  const uid = owner.metadata.uid;
  return uid !== undefined && controllerOf(object)?.uid === uid;
}

/**
 * The list with this reference in it, replacing an older one to the same owner; the same list when it is there
 * already. Throws `conflict` when another owner manages the object.
 */
export function withOwner(
  references: readonly OwnerReference[] | undefined,
  wanted: OwnerReference,
): readonly OwnerReference[] {
  const list = references ?? [];
  const manager = list.find((reference) => reference.controller === true);
  if (wanted.controller && manager && manager.uid !== wanted.uid)
    throw new Fault(
      "conflict",
      `${wanted.kind} ${wanted.name} cannot manage an object that ${manager.kind} ${manager.name} manages`,
    );
  const index = list.findIndex((reference) => reference.uid === wanted.uid);
  if (index < 0) return [...list, wanted];
  return sameReference(list[index], wanted) ? list : list.with(index, wanted);
}

function sameReference(left: OwnerReference | undefined, right: OwnerReference): boolean {
  return (
    left?.apiVersion === right.apiVersion &&
    left.kind === right.kind &&
    left.name === right.name &&
    (left.controller ?? false) === (right.controller ?? false) &&
    (left.blockOwnerDeletion ?? false) === (right.blockOwnerDeletion ?? false)
  );
}

export function withoutOwner(
  references: readonly OwnerReference[] | undefined,
  uid: string,
): readonly OwnerReference[] {
  return (references ?? []).filter((reference) => reference.uid !== uid);
}
