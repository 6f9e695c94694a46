/** Names that another owner holds. Nothing is escaped in a machine's name, so different owners can mean the same one. */
import type { PodIndex } from "../pods/pod-index.ts";
import {
  formatOwnerKey,
  numberedPrefix,
  formatSlotPrefix,
  formatSlotVmName,
  type OwnerChain,
} from "./entry.ts";
import { formKey, type Held, type ReservationIndex } from "./reservation-index.ts";

export interface SetClaims {
  /** The set whose slots begin with that prefix: `CocoonSet lab/demo`. */
  findPrefixOwner(prefix: string): string | undefined;
  /** The set that has a toolbox of that name. */
  findNameOwner(vmName: string): string | undefined;
}

export interface NameKeepers {
  readonly reserved: ReservationIndex;
  readonly sets: SetClaims;
  readonly pods: PodIndex;
}

/** The other holder of names that this owner would use; undefined when there is none. */
export function findPrefixHolder(
  ownerChain: OwnerChain,
  { reserved, sets }: NameKeepers,
): string | undefined {
  const prefix = formatSlotPrefix(ownerChain);
  const set = sets.findPrefixOwner(prefix);
  if (set !== undefined) return set;
  const own = `slot ${formatOwnerKey(ownerChain)}`;
  for (const form of reserved.formsBelow(prefix)) if (form !== own) return form.slice(form.indexOf(" ") + 1);
  return undefined;
}

/** The same for one name that is not a slot of its owner's. */
export function findNameHolder(
  ownerChain: OwnerChain,
  vmName: string,
  keepers: NameKeepers,
): string | undefined {
  const { reserved, sets } = keepers;
  const set = sets.findNameOwner(vmName) ?? findSlotOwner(vmName, keepers);
  if (set !== undefined) return set;
  const own = `pod ${formatOwnerKey(ownerChain)}`;
  for (const { entry } of reserved.holding(vmName)) if (formKey(entry) !== own) return formatOwnerKey(entry);
  return foreignPod(ownerChain, vmName, keepers);
}

function findSlotOwner(vmName: string, { reserved, sets }: NameKeepers): string | undefined {
  const prefix = numberedPrefix(vmName);
  if (prefix === undefined) return undefined;
  const set = sets.findPrefixOwner(prefix);
  if (set !== undefined) return set;
  for (const form of reserved.formsBelow(prefix))
    if (form.startsWith("slot ")) return form.slice("slot ".length);
  return undefined;
}

/** A pod that carries the name although no reservation says so. */
export function foreignPod(
  ownerChain: OwnerChain,
  vmName: string,
  { pods }: NameKeepers,
): string | undefined {
  for (const { metadata } of pods.withVmName(vmName))
    if (metadata.namespace !== ownerChain.namespace || vmName !== formatSlotVmName(ownerChain, metadata.name))
      return `pod ${metadata.namespace}/${metadata.name}`;
  return undefined;
}

/** Another owner's reservation that means the same machine as this one; undefined when there is none. */
export function findRival(held: Held, { reserved }: Pick<NameKeepers, "reserved">): Held | undefined {
  for (const other of reserved.holding(held.entry.vmName))
    if (other.shard !== held.shard || other.key !== held.key) return other;
  const prefix = numberedPrefix(held.entry.vmName);
  if (prefix === undefined) return undefined;
  const own = formKey(held.entry);
  for (const form of reserved.formsBelow(prefix)) {
    if (form === own || (form.startsWith("pod ") && own.startsWith("pod "))) continue;
    for (const other of reserved.below(prefix)) if (formKey(other.entry) === form) return other;
  }
  return undefined;
}

export function collisionText(vmName: string, holder: string): string {
  return `machine name "${vmName}" is held by ${holder}; rename this workload or the other, or wait until the name is released`;
}
