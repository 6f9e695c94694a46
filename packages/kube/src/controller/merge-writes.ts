/**
 * Writes that say only what changes: merge patches computed from what was seen, and nothing at all when nothing would
 * change. Each names the UID it is meant for, so that a successor of the same name is left alone.
 */
import { createMergePatch } from "@cocoon/core";
import type { CallOptions, KubeClient } from "../client.ts";
import { keyOf, type KubeObject, type ResourceType } from "../object.ts";

export interface ChangeTarget<T extends KubeObject> {
  readonly client: KubeClient;
  readonly type: ResourceType<T>;
  readonly object: T;
}

export interface ChangeOptions extends CallOptions {
  readonly subresource?: string;
  readonly fieldManager?: string;
  /** Refuse (`conflict`) when anybody wrote the object since: for values computed from the whole of it. */
  readonly exactVersion?: boolean;
}

/** Brings the object from how it was seen to how it should be. The same object, and no call, when it is so already. */
export async function patchChanges<T extends KubeObject>(
  { client, type, object }: ChangeTarget<T>,
  wanted: T,
  options: ChangeOptions,
): Promise<T> {
  const body = createMergePatch(object, wanted);
  if (body === undefined) return object;
  const patch = { type: "merge", body: withPreconditions(body as Partial<T>, object, options) } as const;
  const { exactVersion: _ours, ...call } = options;
  return client.patch(type, { key: keyOf(object), patch }, call);
}

function withPreconditions(body: Partial<KubeObject>, object: KubeObject, options: ChangeOptions): unknown {
  const { uid, resourceVersion } = object.metadata;
  return {
    ...body,
    metadata: { ...body.metadata, uid, ...(options.exactVersion ? { resourceVersion } : {}) },
  };
}

/** Texts to set; null or undefined removes. */
export type WantedTexts = Readonly<Record<string, string | null | undefined>>;

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

/** Sets and removes annotations; others are left as they are. No call when nothing would change. */
export async function patchAnnotations<T extends KubeObject>(
  { client, type, object }: ChangeTarget<T>,
  wanted: WantedTexts,
  options: CallOptions,
): Promise<T> {
  const annotations = annotationChanges(object, wanted);
  if (!annotations) return object;
  const { uid } = object.metadata;
  const body = { metadata: { annotations, ...(uid === undefined ? {} : { uid }) } };
  return client.patch(type, { key: keyOf(object), patch: { type: "merge", body } }, options);
}
