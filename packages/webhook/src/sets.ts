/** CocoonSets as the cache shows them: their identity and the names they claim. */
import { apiGroup, buildSetClaim, type NameClaim } from "@cocoon/contract";
import { ignoreFault, type Abortable } from "@cocoon/core";
import {
  resourceType,
  type CacheEvent,
  type KubeClient,
  type KubeObject,
  type ObjectCache,
} from "@cocoon/kube";
import { MultiMap } from "./multi-map.ts";
import { slimMetadata, type SlimObject } from "./pods/slim-pod.ts";
import type { SetClaims } from "./store/collisions.ts";

export interface SetFacts extends SlimObject {
  readonly claim: NameClaim;
}

export const cocoonSets = resourceType<SetFacts>({ group: apiGroup, version: "v1", kind: "CocoonSet" });

/** Whatever else is wrong with a set, its names are claimed. */
export function readSetFacts(object: KubeObject): SetFacts {
  const metadata = slimMetadata(object);
  return { metadata, claim: buildSetClaim({ ...metadata, toolboxes: toolboxNames(object) }) };
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
  readonly #prefixes = new MultiMap<string, string>();
  readonly #names = new MultiMap<string, string>();

  readonly take = (event: CacheEvent<SetFacts>): void => {
    if (event.kind === "updated") this.#change(event.old.claim, "remove");
    this.#change(event.object.claim, event.kind === "deleted" ? "remove" : "add");
  };

  #change({ owner, slotPrefix, names }: NameClaim, how: "add" | "remove"): void {
    if (slotPrefix !== undefined) this.#prefixes[how](slotPrefix, owner);
    for (const name of names) this.#names[how](name, owner);
  }

  findPrefixOwner(prefix: string): string | undefined {
    return this.#prefixes.get(prefix).values().next().value;
  }

  findNameOwner(vmName: string): string | undefined {
    return this.#names.get(vmName).values().next().value;
  }
}

export interface SetReference {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** Whether that very set exists. The cache may be behind: what it does not show is read from the API server. */
export async function setExists(
  { namespace, name, uid }: SetReference,
  { cache, client }: { readonly cache: ObjectCache<SetFacts>; readonly client: KubeClient },
  { signal }: Abortable,
): Promise<boolean> {
  if (cache.get({ namespace, name })?.metadata.uid === uid) return true;
  const found = await ignoreFault("notFound", client.get(cocoonSets, { namespace, name }, { signal }));
  return found?.metadata.uid === uid;
}
