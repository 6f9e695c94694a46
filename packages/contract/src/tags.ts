/** Registry tags of a machine's repository. */
import { Fault } from "@cocoon/core/fault";

export const hibernateTag = "hibernate";
export const latestTag = "latest";

/** The seal: names the digest of `hibernate` once the VM was removed from its node. A claim replaces it. */
export const sealTag = "hibernated";

const claimPrefix = "waking-";

/** A tag has at most 128 characters. The name is never cut: it is what a fenced node is looked up by. */
const maxClaimNode = 128 - claimPrefix.length;

/** The claim: this node restores the digest that the tag names, and no other node may. */
export function claimTag(node: string): string {
  if (node === "" || node.length > maxClaimNode)
    throw new Fault("invalid", `node name "${node.slice(0, 200)}" must have 1 to ${maxClaimNode} characters`);
  return `${claimPrefix}${node}`;
}

export function tryReadClaimTag(tag: string): string | undefined {
  const node = tag.startsWith(claimPrefix) ? tag.slice(claimPrefix.length) : "";
  return node === "" ? undefined : node;
}

/**
 * The anchor: keeps the content of the snapshot that a machine was last woken from, so that its next snapshot sends only what
 * changed. Nothing can be restored from it.
 */
export const anchorTag = "anchor";

const restoredPrefix = "restored-";

/** The tag that a snapshot gets before a machine is replaced by it: `latest` is about to move. */
export function restoredTag(digest: string): string {
  return `${restoredPrefix}${digest.replace(/^sha256:/, "").slice(0, 12)}`;
}

const podSnapshotPrefix = "ps-";

/** The tag of a PodSnapshot. */
export function podSnapshotTag(name: string): string {
  return `${podSnapshotPrefix}${name}`;
}

export function tryReadPodSnapshotTag(tag: string): string | undefined {
  return tag.startsWith(podSnapshotPrefix) ? tag.slice(podSnapshotPrefix.length) : undefined;
}

export type TagPurpose = "hibernated" | "claim" | "latest" | "released" | "restored" | "anchor" | "named";

export function readTagPurpose(tag: string): TagPurpose {
  if (tag === hibernateTag || tag === sealTag) return "hibernated";
  if (tryReadClaimTag(tag) !== undefined) return "claim";
  if (tag === latestTag) return "latest";
  if (tag === anchorTag) return "anchor";
  if (tryReadReleasedTag(tag)) return "released";
  return tag.startsWith(restoredPrefix) ? "restored" : "named";
}

const releasedPattern = /^released-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/;

/** The tag a slot's `hibernate` gets when the slot is released: a later machine of that number boots fresh. */
export function releasedTag(at: Date): string {
  const compact = at.toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return `released-${compact}`;
}

export function tryReadReleasedTag(tag: string): Date | undefined {
  const match = releasedPattern.exec(tag);
  if (match === null) return undefined;
  const [, year, month, day, hour, minute, second] = match;
  const at = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(at.getTime()) || releasedTag(at) !== tag ? undefined : at;
}
