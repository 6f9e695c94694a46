/** Finalizers, by JSON patches that test what they were computed from: two writers never drop each other's entries. */
import { Fault, isFault, testOperation, type JsonPatchOperation } from "@cocoon/core";
import type { CallOptions, KubeClient } from "../client/client.ts";
import type { OwnWrites } from "./own-writes.ts";
import { getKey, keyText, type KubeObject, type ResourceType } from "../object.ts";

const attempts = 8;

export function hasFinalizer(object: KubeObject, finalizer: string): boolean {
  return object.metadata.finalizers?.includes(finalizer) ?? false;
}

export interface FinalizerTarget<T extends KubeObject> {
  readonly client: KubeClient;
  readonly type: ResourceType<T>;
  /** As it was last seen; when it has the wanted form already, nothing is sent. */
  readonly object: T;
  readonly finalizer: string;
  /** Where the patch goes through, so that the next read sees it before the cache does. */
  readonly writes?: Pick<OwnWrites<T>, "patch">;
}

/** The object with the finalizer. Throws `conflict` when it is being deleted or was replaced by another one. */
export async function addFinalizer<T extends KubeObject>(
  target: FinalizerTarget<T>,
  options: CallOptions,
): Promise<T> {
  const changed = await change(target, options, (object) => {
    if (hasFinalizer(object, target.finalizer)) return undefined;
    if (object.metadata.deletionTimestamp)
      throw new Fault("conflict", `${getName(target)} is being deleted: a finalizer comes too late`);
    return addOperations(object, target.finalizer);
  });
  if (!changed) throw new Fault("conflict", `${getName(target)} was deleted`);
  return changed;
}

/** The object without the finalizer; undefined when it is gone, which removing the last finalizer may bring about. */
export async function removeFinalizer<T extends KubeObject>(
  target: FinalizerTarget<T>,
  options: CallOptions,
): Promise<T | undefined> {
  return change(target, options, (object) => removeOperations(object, target.finalizer));
}

function addOperations(object: KubeObject, finalizer: string): JsonPatchOperation[] {
  const { finalizers, uid, resourceVersion } = object.metadata;
  const sameObject = testOperation(["metadata", "uid"], uid);
  if (finalizers?.length)
    return [
      sameObject,
      testOperation(["metadata", "finalizers"], finalizers),
      { op: "add", path: "/metadata/finalizers/-", value: finalizer },
    ];
  // "Still no list" cannot be tested, only "still the same version".
  return [
    sameObject,
    testOperation(["metadata", "resourceVersion"], resourceVersion),
    { op: "add", path: "/metadata/finalizers", value: [finalizer] },
  ];
}

function removeOperations(object: KubeObject, finalizer: string): JsonPatchOperation[] | undefined {
  const index = object.metadata.finalizers?.indexOf(finalizer) ?? -1;
  if (index < 0) return undefined;
  const path = ["metadata", "finalizers", String(index)];
  return [
    testOperation(["metadata", "uid"], object.metadata.uid),
    testOperation(path, finalizer),
    { op: "remove", path: `/metadata/finalizers/${index}` },
  ];
}

async function change<T extends KubeObject>(
  target: FinalizerTarget<T>,
  options: CallOptions,
  operationsFor: (object: T) => JsonPatchOperation[] | undefined,
): Promise<T | undefined> {
  const { client, type } = target;
  const key = getKey(target.object);
  let object = target.object;
  try {
    for (let attempt = 1; attempt <= attempts; attempt += 1) {
      const body = operationsFor(object);
      if (!body) return object;
      const patched = await tryPatch(() =>
        target.writes
          ? target.writes.patch({ key, patch: { type: "json", body } }, options)
          : client.patch(type, { key, patch: { type: "json", body } }, options),
      );
      if (patched) return patched;
      object = await client.get(type, key, options);
      if (object.metadata.uid !== target.object.metadata.uid) return undefined; // another one of the same name
    }
  } catch (error) {
    if (isFault(error, "notFound")) return undefined;
    throw error;
  }
  throw new Fault("conflict", `${getName(target)}: finalizers changed ${attempts} times under our hands`);
}

/** Undefined when the object was not what the patch was made for. The server calls a failed test invalid (422). */
async function tryPatch<T>(patch: () => Promise<T>): Promise<T | undefined> {
  try {
    return await patch();
  } catch (error) {
    if (isFault(error, "invalid") || isFault(error, "conflict")) return undefined;
    throw error;
  }
}

function getName({ type, object }: FinalizerTarget<KubeObject>): string {
  return `${type.kind} ${keyText(getKey(object))}`;
}
