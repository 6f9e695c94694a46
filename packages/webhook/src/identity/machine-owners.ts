/**
 * The namespaces that a machine's name can belong to. Nothing is escaped in such a name, so `vk-a-b-c-0` may be of
 * namespace `a` or `a-b`: the longest namespace that exists counts, and every namespace that holds the name now.
 */
import type { NameKeepers } from "../store/collisions.ts";
import { numberedPrefix } from "../store/entry.ts";

export interface OwnerContext {
  readonly keepers: NameKeepers;
  readonly namespaceExists: (name: string) => boolean;
}

export function findOwnerNamespaces(vmName: string, context: OwnerContext): ReadonlySet<string> {
  const owners = new Set(findHolderNamespaces(vmName, context.keepers));
  const longest = findLongestNamespace(vmName, context.namespaceExists);
  if (longest !== undefined) owners.add(longest);
  return owners;
}

function* findHolderNamespaces(vmName: string, { reserved, sets, pods }: NameKeepers): Iterable<string> {
  const prefix = numberedPrefix(vmName);
  const set = sets.findNameOwner(vmName) ?? (prefix === undefined ? undefined : sets.findPrefixOwner(prefix));
  const namespace = set === undefined ? undefined : /^CocoonSet ([^/]+)\//.exec(set)?.[1];
  if (namespace !== undefined) yield namespace;
  for (const { entry } of reserved.holding(vmName)) yield entry.namespace;
  for (const { metadata } of pods.withVmName(vmName)) yield metadata.namespace;
}

function findLongestNamespace(vmName: string, exists: (name: string) => boolean): string | undefined {
  const rest = vmName.slice("vk-".length);
  for (let dash = rest.lastIndexOf("-"); dash > 0; dash = rest.lastIndexOf("-", dash - 1))
    if (exists(rest.slice(0, dash))) return rest.slice(0, dash);
  return undefined;
}
