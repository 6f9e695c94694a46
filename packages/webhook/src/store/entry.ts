/**
 * One reservation and its text in the store. The first eight fields, their order and their meaning are those that other
 * implementations read; the rest is ours and left out when empty.
 *
 *   claim      the admission that took the slot; the pod it let in carries the same text
 *   podUid     the pod that was seen to hold the slot
 *   goneSince  since when that pod is known to be gone
 *   lastGone   the goneSince of the predecessor: what the slot falls back to when the pod that took it never came
 *
 *   (free) --claim--> pending --pod seen--> bound --pod gone--> gone --claim--> pending …
 *                        |                                        |
 *                        +--never created: gone again, or free    +--grace over: free
 */
import { podVmName, vmName as slotVmName } from "@cocoon/contract";
import { tryParseJson } from "@cocoon/core";
import * as z from "zod";

export interface Owner {
  readonly kind: string;
  readonly name: string;
  /** Empty where it is not known. */
  readonly uid: string;
}

const text = z.string().max(1024).default("");

const wireSchema = z.object({
  pool: text,
  namespace: z.string().min(1).max(63),
  /** Empty for pods that are named by themselves: bare ones and those of a StatefulSet. */
  deployment: text,
  slot: z.int().min(0),
  vmName: z.string().min(1).max(512),
  /** Empty until the pod has a name. */
  pod: text,
  node: text,
  /** Of the last claim. */
  updatedAt: text,
  ownerKind: text,
  ownerName: text,
  ownerUid: text,
  claim: text,
  podUid: text,
  goneSince: text,
  lastGone: text,
});

type Wire = z.infer<typeof wireSchema>;

export interface Entry extends Readonly<Omit<Wire, "ownerKind" | "ownerName" | "ownerUid">> {
  readonly owner: Owner;
}

/** Undefined for what is no reservation: others may keep notes of their own in the same object. */
export function tryReadEntry(value: string): Entry | undefined {
  const parsed = wireSchema.safeParse(tryParseJson(value));
  if (!parsed.success) return undefined;
  const { ownerKind, ownerName, ownerUid, ...fields } = parsed.data;
  const owner = ownerKind === "" ? olderOwner(fields) : { kind: ownerKind, name: ownerName, uid: ownerUid };
  return { ...fields, owner };
}

/** Entries of other implementations name no owner: it follows from the form. */
function olderOwner({ deployment, pod }: { readonly deployment: string; readonly pod: string }): Owner {
  return deployment === ""
    ? { kind: "Pod", name: pod, uid: "" }
    : { kind: "Deployment", name: deployment, uid: "" };
}

export function writeEntry(entry: Entry): string {
  const { owner, claim, podUid, goneSince, lastGone } = entry;
  const named = { ownerKind: owner.kind, ownerName: owner.name, ownerUid: owner.uid };
  const ours = Object.entries({ ...named, claim, podUid, goneSince, lastGone });
  const { pool, namespace, deployment, slot, vmName, pod, node, updatedAt } = entry;
  const shared = { pool, namespace, deployment, slot, vmName, pod, node, updatedAt };
  return JSON.stringify({
    ...shared,
    ...Object.fromEntries(ours.filter(([, value]) => value !== "")),
  });
}

/** What a slot was before the claim on it; undefined: there was none. */
export function beforeClaim(entry: Entry): Entry | undefined {
  if (entry.lastGone === "") return undefined;
  return { ...entry, claim: "", goneSince: entry.lastGone, lastGone: "" };
}

/** `<namespace>.<deployment>.<slot>` or `<namespace>._pod.<pod>`: namespaces hold no dots, names no underscore. */
export function formatEntryKey({ namespace, deployment, slot, pod }: Omit<Entry, "owner">): string {
  return deployment === "" ? `${namespace}._pod.${pod}` : `${namespace}.${deployment}.${slot}`;
}

/** What keeps its slots together: a Deployment, a Job, a StatefulSet, or one bare pod. */
export interface OwnerChain {
  readonly namespace: string;
  readonly owner: Owner;
  /** How its machines are named: by slot, or after the pod. */
  readonly form: "slot" | "pod";
}

/** Two objects of the same name that followed each other are one ownerChain; their uid tells them apart. */
export function formatOwnerKey({ namespace, owner }: Pick<OwnerChain, "namespace" | "owner">): string {
  return `${owner.kind} ${namespace}/${owner.name}`;
}

export function formatSlotPrefix({ namespace, owner }: Pick<OwnerChain, "namespace" | "owner">): string {
  return slotVmName({ namespace, set: owner.name }, "");
}

export function formatSlotVmName(ownerChain: OwnerChain, member: number | string): string {
  return typeof member === "number"
    ? slotVmName({ namespace: ownerChain.namespace, set: ownerChain.owner.name }, member)
    : podVmName(ownerChain.namespace, member);
}

const numbered = /^(.*-)(?:0|[1-9]\d{0,9})$/;

/** `vk-lab-demo-` of `vk-lab-demo-7`: whose slot a name would be; undefined when it ends in no number. */
export function numberedPrefix(vmName: string): string | undefined {
  return numbered.exec(vmName)?.[1];
}
