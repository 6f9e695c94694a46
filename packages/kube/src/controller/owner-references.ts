/** Metadata of objects: owners and annotations. An owner is its UID: a new object of the same name owns nothing of the old one. */
import { Fault } from "@cocoon/core";
import { formatApiVersion, type KubeObject, type OwnerReference, type ResourceType } from "../object.ts";

/** The reference that makes `owner` the managing owner of something. */
export function controllerReference(type: ResourceType<KubeObject>, owner: KubeObject): OwnerReference {
  const { name, uid } = owner.metadata;
  if (!name || !uid) throw new Fault("invalid", `a ${type.kind} without name and uid cannot own anything`);
  return {
    apiVersion: formatApiVersion(type),
    kind: type.kind,
    name,
    uid,
    controller: true,
    blockOwnerDeletion: true,
  };
}

export function findController(object: KubeObject): OwnerReference | undefined {
  return object.metadata.ownerReferences?.find((reference) => reference.controller === true);
}

export function isControlledBy(object: KubeObject, owner: KubeObject): boolean {
  const uid = owner.metadata.uid;
  return uid !== undefined && findController(object)?.uid === uid;
}

export function withoutOwner(
  references: readonly OwnerReference[] | undefined,
  uid: string,
): readonly OwnerReference[] {
  return (references ?? []).filter((reference) => reference.uid !== uid);
}

type WantedTexts = Readonly<Record<string, string | null | undefined>>;

/** The annotations that differ, as a merge patch of the map; undefined when none does. */
export function annotationChanges(
  object: KubeObject,
  wanted: WantedTexts,
): Record<string, string | null> | undefined {
  const current = object.metadata.annotations ?? {};
  const changes = Object.entries(wanted).flatMap(([key, value]): [string, string | null][] => {
    const before = Object.hasOwn(current, key) ? current[key] : undefined;
    return before === (value ?? undefined) ? [] : [[key, value ?? null]];
  });
  return changes.length === 0 ? undefined : Object.fromEntries(changes);
}
