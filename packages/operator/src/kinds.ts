/** The custom resources as the API server serves them. Objects stay unread until a reconcile reads them. */
import { apiGroup, legacyApiGroup } from "@cocoon/contract";
import { resourceType, type KubeObject } from "@cocoon/kube";

/** Not checked yet: an object that cannot be read must still be deletable. */
export interface CustomObject extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

const current = { group: apiGroup, version: "v1", namespaced: true };
const older = { group: legacyApiGroup, version: "v1alpha1", namespaced: true };

export const cocoonSets = resourceType<CustomObject>({ ...current, kind: "CocoonSet", plural: "cocoonsets" });
export const cocoonHibernations = resourceType<CustomObject>({
  ...current,
  kind: "CocoonHibernation",
  plural: "cocoonhibernations",
});
export const snapshotGrants = resourceType<CustomObject>({
  ...current,
  kind: "CocoonSnapshotGrant",
  plural: "cocoonsnapshotgrants",
});
export const legacySets = resourceType<CustomObject>({ ...older, kind: "CocoonSet", plural: "cocoonsets" });
export const legacyHibernations = resourceType<CustomObject>({
  ...older,
  kind: "Hibernation",
  plural: "hibernations",
});
