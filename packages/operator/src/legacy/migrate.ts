/**
 * Turns objects of the older API into current ones for good: afterwards nothing of them is left but their machines, which
 * go on undisturbed. May be repeated; what cannot be taken over is named and left as it is.
 */
import {
  fromLegacyCocoonSet,
  fromLegacyHibernation,
  readLegacyCocoonSet,
  readLegacyHibernation,
} from "@cocoon/contract/legacy";
import { getErrorMessage, ignoreFault, type Abortable } from "@cocoon/core";
import { getKey, keyText, type KubeClient, type ResourceType } from "@cocoon/kube";
import { isControlledBy, withoutOwner } from "@cocoon/kube/controller";
import {
  cocoonHibernations,
  cocoonSets,
  legacyHibernations,
  legacySets,
  type CustomObject,
} from "../kinds.ts";

export interface MigrateOptions extends Abortable {
  readonly client: KubeClient;
  /** Only this namespace; all when left out. */
  readonly namespace?: string;
  /** Say what would be done, do nothing. */
  readonly dryRun?: boolean;
}

interface Kind {
  readonly older: ResourceType<CustomObject>;
  readonly current: ResourceType<CustomObject>;
  readonly convert: (object: CustomObject) => CustomObject;
}

const kinds: readonly Kind[] = [
  {
    older: legacySets,
    current: cocoonSets,
    convert: (object) => fromLegacyCocoonSet(readLegacyCocoonSet(object)).set,
  },
  {
    older: legacyHibernations,
    current: cocoonHibernations,
    convert: (object) => fromLegacyHibernation(readLegacyHibernation(object)),
  },
];

/** One line for each object: what became of it. */
export async function migrateLegacy(options: MigrateOptions): Promise<readonly string[]> {
  const lines: string[] = [];
  for (const kind of kinds) {
    const scope = options.namespace === undefined ? {} : { namespace: options.namespace };
    for await (const { items } of options.client.pages(kind.older, {
      ...scope,
      signal: options.signal,
      limit: 500,
    }))
      for (const object of items.filter(isThere).sort(byAge))
        lines.push(await migrate(options, kind, object));
  }
  return lines;
}

function isThere({ metadata }: CustomObject): boolean {
  return metadata.deletionTimestamp === undefined;
}

/** Of two for one pod the older was the one that counted. */
function byAge(left: CustomObject, right: CustomObject): number {
  return (left.metadata.creationTimestamp ?? "") < (right.metadata.creationTimestamp ?? "") ? -1 : 1;
}

async function migrate(options: MigrateOptions, kind: Kind, object: CustomObject): Promise<string> {
  const name = `${kind.older.kind} ${keyText(getKey(object))}`;
  try {
    const done = await takeOver(options, kind, object);
    if (done.kept) return `${name}: left as it is: ${done.what}`;
    if (options.dryRun) return `${name}: would be taken over: ${done.what}`;
    // Without its owner the current object, and its machines with it, outlives the older one.
    const { signal } = options;
    await options.client.delete(kind.older, getKey(object), { signal, propagationPolicy: "Orphan" });
    return `${name}: ${done.what}`;
  } catch (error) {
    if (options.signal.aborted) throw error;
    return `${name}: left as it is: ${getErrorMessage(error)}`;
  }
}

interface Done {
  readonly kept: boolean;
  readonly what: string;
}

async function takeOver(options: MigrateOptions, kind: Kind, object: CustomObject): Promise<Done> {
  const { client, signal, dryRun = false } = options;
  const wanted = kind.convert(object);
  const key = { namespace: object.metadata.namespace, name: wanted.metadata.name ?? "" };
  const existing = await ignoreFault("notFound", client.get(kind.current, key, { signal }));
  const target = `${kind.current.kind} ${keyText(key)}`;
  if (!existing) {
    if (!dryRun) await client.create(kind.current, wanted, { signal });
    return { kept: false, what: `${target} created` };
  }
  if (!isControlledBy(existing, object))
    return { kept: true, what: `${target} exists and is not kept for it` };
  const { uid, ownerReferences } = existing.metadata;
  const body = {
    metadata: { uid, ownerReferences: withoutOwner(ownerReferences, object.metadata.uid ?? "") },
  };
  if (!dryRun) await client.patch(kind.current, { key, patch: { type: "merge", body } }, { signal });
  return { kept: false, what: `${target} stands on its own` };
}
