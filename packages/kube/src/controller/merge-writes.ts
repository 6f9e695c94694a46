/**
 * Writes that say only what changes: merge patches computed from what was seen, and nothing at all when nothing would
 * change. Each names the UID it is meant for: when another object has the name by now, it is left alone and
 * the answer is `conflict`.
 */
import { createMergePatch, Fault, isFault } from "@cocoon/core";
import type { CallOptions, KubeClient } from "../client.ts";
import { keyOf, keyText, type KubeObject, type ResourceType } from "../object.ts";

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
  target: ChangeTarget<T>,
  wanted: T,
  options: ChangeOptions,
): Promise<T> {
  const body = createMergePatch(target.object, wanted);
  return body === undefined ? target.object : send(target, body as Partial<KubeObject>, options);
}

async function send<T extends KubeObject>(
  { client, type, object }: ChangeTarget<T>,
  body: Partial<KubeObject>,
  options: ChangeOptions,
): Promise<T> {
  const { exactVersion: _ours, ...call } = options;
  const patch = { type: "merge", body: withPreconditions(body, object, options) } as const;
  try {
    return await client.patch(type, { key: keyOf(object), patch }, call);
  } catch (error) {
    // The server reads another UID as an attempt to change it.
    if (isFault(error, "invalid") && error.causes.some((cause) => cause.field === "metadata.uid"))
      throw new Fault("conflict", `${type.kind} ${keyText(keyOf(object))} is another object by now`, {
        cause: error,
      });
    throw error;
  }
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
  target: ChangeTarget<T>,
  wanted: WantedTexts,
  options: CallOptions,
): Promise<T> {
  const annotations = annotationChanges(target.object, wanted);
  if (!annotations) return target.object;
  // A merge patch holds nulls, which no object does.
  const metadata = { annotations } as unknown as KubeObject["metadata"];
  return send(target, { metadata }, options);
}
