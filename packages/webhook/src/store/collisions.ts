/** Names that somebody else holds. Nothing is escaped in a machine's name, so different owners can mean the same one. */
import type { PodIndex } from "../pods/pod-index.ts";
import { lineageKey, numberedPrefix, slotPrefixOf, vmNameOf, type Lineage } from "./entry.ts";
import { formKey, type Held, type Ledger } from "./ledger.ts";

/** The names that CocoonSets claim. */
export interface SetClaims {
  /** The set whose slots begin with that prefix: `CocoonSet lab/demo`. */
  ownerOfPrefix(prefix: string): string | undefined;
  /** The set that has a toolbox of that name. */
  ownerOfName(vmName: string): string | undefined;
}

export interface NameKeepers {
  readonly ledger: Ledger;
  readonly sets: SetClaims;
  readonly pods: PodIndex;
}

/** Who holds names that this lineage means too; undefined when nobody does. */
export function holderOfPrefix(lineage: Lineage, { ledger, sets }: NameKeepers): string | undefined {
  const prefix = slotPrefixOf(lineage);
  const set = sets.ownerOfPrefix(prefix);
  if (set !== undefined) return set;
  const own = `slot ${lineageKey(lineage)}`;
  for (const form of ledger.formsBelow(prefix)) if (form !== own) return form.slice(form.indexOf(" ") + 1);
  return undefined;
}

/** The same for one name that is not a slot of its owner's. */
export function holderOfName(lineage: Lineage, vmName: string, keepers: NameKeepers): string | undefined {
  const { ledger, sets } = keepers;
  const set = sets.ownerOfName(vmName) ?? ownerOfSlot(vmName, keepers);
  if (set !== undefined) return set;
  const own = `pod ${lineageKey(lineage)}`;
  for (const { entry } of ledger.holding(vmName)) if (formKey(entry) !== own) return lineageKey(entry);
  return foreignPod(lineage, vmName, keepers);
}

function ownerOfSlot(vmName: string, { ledger, sets }: NameKeepers): string | undefined {
  const prefix = numberedPrefix(vmName);
  if (prefix === undefined) return undefined;
  const set = sets.ownerOfPrefix(prefix);
  if (set !== undefined) return set;
  for (const form of ledger.formsBelow(prefix))
    if (form.startsWith("slot ")) return form.slice("slot ".length);
  return undefined;
}

/** A pod that carries the name although no reservation says so. */
export function foreignPod(lineage: Lineage, vmName: string, { pods }: NameKeepers): string | undefined {
  for (const { metadata } of pods.withVmName(vmName))
    if (metadata.namespace !== lineage.namespace || vmName !== vmNameOf(lineage, metadata.name))
      return `pod ${metadata.namespace}/${metadata.name}`;
  return undefined;
}

/** Somebody else's reservation that means the same machine as this one; undefined when there is none. */
export function rivalOf(held: Held, { ledger }: Pick<NameKeepers, "ledger">): Held | undefined {
  for (const other of ledger.holding(held.entry.vmName))
    if (other.shard !== held.shard || other.key !== held.key) return other;
  const prefix = numberedPrefix(held.entry.vmName);
  if (prefix === undefined) return undefined;
  const own = formKey(held.entry);
  for (const form of ledger.formsBelow(prefix)) {
    if (form === own || (form.startsWith("pod ") && own.startsWith("pod "))) continue;
    for (const other of ledger.below(prefix)) if (formKey(other.entry) === form) return other;
  }
  return undefined;
}

export function collisionText(vmName: string, holder: string): string {
  return `machine name "${vmName}" is held by ${holder}; rename this workload or the other, or wait until the name is released`;
}
