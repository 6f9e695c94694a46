/** CocoonSets as the cache shows them: their identity and the names they claim. */
import { apiGroup, claimOfSet, type NameClaim } from "@cocoon/contract";
import { isFault, type Abortable } from "@cocoon/core";
import {
  resourceType,
  type CacheEvent,
  type KubeClient,
  type KubeObject,
  type ObjectCache,
} from "@cocoon/kube";
import type { SetClaims } from "./store/collisions.ts";

export interface SetFacts extends KubeObject {
  readonly metadata: {
    readonly name: string;
    readonly namespace: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
  readonly claim: NameClaim;
}

export const cocoonSets = resourceType<SetFacts>({
  group: apiGroup,
  version: "v1",
  kind: "CocoonSet",
  plural: "cocoonsets",
  namespaced: true,
});

/** Whatever else is wrong with a set, its names are claimed. */
export function readSetFacts(object: KubeObject): SetFacts {
  const { name = "", namespace = "", uid = "", resourceVersion = "" } = object.metadata;
  const claim = claimOfSet({ namespace, name, toolboxes: toolboxNames(object) });
  return { metadata: { name, namespace, uid, resourceVersion }, claim };
}

function toolboxNames(object: KubeObject): string[] {
  const { spec } = object as { spec?: { toolboxes?: unknown } };
  if (!Array.isArray(spec?.toolboxes)) return [];
  return spec.toolboxes.flatMap((toolbox: unknown) => {
    const name = typeof toolbox === "object" && toolbox !== null && "name" in toolbox ? toolbox.name : "";
    return typeof name === "string" && name !== "" ? [name] : [];
  });
}

export class SetIndex implements SetClaims {
  readonly #prefixes = new Map<string, Set<string>>();
  readonly #names = new Map<string, Set<string>>();

  readonly take = (event: CacheEvent<SetFacts>): void => {
    if (event.kind === "updated") this.#change(event.old.claim, "remove");
    this.#change(event.object.claim, event.kind === "deleted" ? "remove" : "add");
  };

  #change({ owner, slotPrefix, names }: NameClaim, how: "add" | "remove"): void {
    if (slotPrefix !== undefined) changeIn(this.#prefixes, slotPrefix, { owner, how });
    for (const name of names) changeIn(this.#names, name, { owner, how });
  }

  ownerOfPrefix(prefix: string): string | undefined {
    return this.#prefixes.get(prefix)?.values().next().value;
  }

  ownerOfName(vmName: string): string | undefined {
    return this.#names.get(vmName)?.values().next().value;
  }
}

function changeIn(
  map: Map<string, Set<string>>,
  key: string,
  { owner, how }: { readonly owner: string; readonly how: "add" | "remove" },
): void {
  const owners = map.get(key) ?? new Set<string>();
  if (how === "add") owners.add(owner);
  else owners.delete(owner);
  if (owners.size === 0) map.delete(key);
  else map.set(key, owners);
}

export interface SetReference {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Whether that very set exists. The cache may be behind: what it does not show is asked for. */
export async function setExists(
  { namespace, name, uid }: SetReference,
  { cache, client }: { readonly cache: ObjectCache<SetFacts>; readonly client: KubeClient },
  { signal }: Abortable,
): Promise<boolean> {
  if (cache.get({ namespace, name })?.metadata.uid === uid) return true;
  try {
    return (await client.get(cocoonSets, { namespace, name }, { signal })).metadata.uid === uid;
  } catch (error) {
    if (isFault(error, "notFound")) return false;
    throw error;
  }
}
