/** The custom resources as the API server serves them, and writes of their status. Objects stay unread until a reconcile reads them. */
import { apiGroup, legacyApiGroup } from "@cocoon/contract";
import { createMergePatch, type Abortable } from "@cocoon/core";
import { getKey, resourceType, type KubeObject } from "@cocoon/kube";
import type { OwnWrites } from "@cocoon/kube/controller";

/** Not checked yet: an object that cannot be read must still be deletable. */
export interface CustomObject extends KubeObject {
  readonly spec?: unknown;
  readonly status?: unknown;
}

const current = { group: apiGroup, version: "v1" };
const older = { group: legacyApiGroup, version: "v1alpha1" };

export const cocoonSets = resourceType<CustomObject>({ ...current, kind: "CocoonSet" });
export const cocoonHibernations = resourceType<CustomObject>({ ...current, kind: "CocoonHibernation" });
export const snapshotGrants = resourceType<CustomObject>({ ...current, kind: "CocoonSnapshotGrant" });
export const legacySets = resourceType<CustomObject>({ ...older, kind: "CocoonSet" });
export const legacyHibernations = resourceType<CustomObject>({ ...older, kind: "Hibernation" });

/** Whether the status differed and was written. */
export async function patchStatus(
  writes: OwnWrites<CustomObject>,
  { object, status }: { readonly object: CustomObject; readonly status: object },
  { signal }: Abortable,
): Promise<boolean> {
  const body = createMergePatch(object.status ?? {}, status);
  if (body === undefined) return false;
  const { uid } = object.metadata;
  const patch = { type: "merge", body: { metadata: { uid }, status: body } } as const;
  await writes.patch({ key: getKey(object), patch }, { signal, subresource: "status" });
  return true;
}
