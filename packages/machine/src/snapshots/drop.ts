/** Ends of a hibernated snapshot: dropped with proof, released, or settled when its set is deleted. */
import { anchorTag, hibernateTag, latestTag, sealTag, tryReadClaimTag } from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { anchorSnapshot, deleteByDigest, type Repository } from "@cocoon/oci";
import { findManifest } from "./find.ts";
import { keepAsReleased } from "./keep-as-released.ts";
import { findDigest, listTags, removeTag, removeTags, retagVerified } from "./tags.ts";

export interface Drop {
  /** The snapshot to drop. */
  readonly digest: string;
  /** The proof of descent: digest that the running VM was restored from. */
  readonly restoredFrom: string;
  /** Id of the running VM: a snapshot that was saved of this very VM, which then continued, may go as well. */
  readonly vmId?: string;
}

/** `absent`: there is no hibernated snapshot any more. `kept`: tag `hibernate` names another one, which stays. */
export type DropOutcome = "dropped" | "absent" | "kept";

/**
 * Removes the snapshot of a machine that was woken from it; of a packed one the content stays for the next push. Throws `preconditionFailed` without proof of descent. Other tags
 * on the digest keep the content. May be repeated.
 */
export async function dropSnapshot(
  repository: Repository,
  { digest, restoredFrom, vmId = "" }: Drop,
  options: Abortable,
): Promise<DropOutcome> {
  const hibernated = await findManifest(repository, hibernateTag, options);
  const proven = restoredFrom === digest || (vmId !== "" && hibernated?.vmId === vmId);
  if (digest === "" || !proven)
    throw new Fault(
      "preconditionFailed",
      `${repository.name}: ${digest || "no digest"} is not dropped, because the running VM was restored from ${restoredFrom || "no snapshot"}`,
    );
  if (hibernated?.digest === digest) {
    await anchorSnapshot({ repository, digest, tag: anchorTag, ...options });
    await removeHibernated(repository, { digest, kept: [] }, options);
    return "dropped";
  }
  return hibernated === undefined ? "absent" : "kept";
}

/** Tags that say "this machine is hibernated in it", on this digest. */
async function removeHibernated(
  repository: Repository,
  { digest, kept }: { readonly digest: string; readonly kept: readonly string[] },
  options: Abortable,
): Promise<void> {
  const tags = await listTags(repository, { ...options, known: [hibernateTag] });
  const claims = tags.filter((tag) => tryReadClaimTag(tag) !== undefined);
  await removeTags(repository, { digest, tags: [hibernateTag, sealTag, ...claims], kept }, options);
}

export interface Released {
  readonly digest: string;
  /** The tag that it can be restored from. */
  readonly tag: string;
}

/**
 * Renames a hibernated snapshot: a later machine of that name boots fresh, and `cocoonctl snapshot restore` brings the old one
 * back. Undefined when there is none; with `digest`, also when `hibernate` names another one. May be repeated.
 */
export async function releaseSnapshot(
  repository: Repository,
  { at, digest: wanted }: { readonly at: Date; readonly digest?: string },
  options: Abortable,
): Promise<Released | undefined> {
  const digest = await findDigest(repository, hibernateTag, options);
  if (digest === undefined || (wanted !== undefined && wanted !== digest)) return undefined;
  const tag = await keepAsReleased(repository, { digest, at }, options);
  await removeHibernated(repository, { digest, kept: [tag] }, options);
  return { digest, tag };
}

export interface Settlement {
  /** The policy asks for a snapshot `latest` of this machine. */
  readonly keep: boolean;
  /** Nothing at all is to stay. */
  readonly purge: boolean;
  readonly at: Date;
  /** Called before anything is changed; what it throws ends the settlement. Not called where nothing has to change. */
  readonly confirm?: () => Promise<void>;
}

/**
 * The machine's set is deleted: what it is hibernated in becomes `latest`, or goes. An older `latest` of which the order is
 * not proven by descent is kept as a released one: clocks of nodes do not decide.
 */
export async function settleSnapshots(
  repository: Repository,
  { keep, purge, at, confirm }: Settlement,
  options: Abortable,
): Promise<void> {
  // One listing instead of a lookup per tag: of most machines nothing is there.
  const tags = await listTags(repository, options);
  const changes = purge
    ? tags.length > 0
    : tags.includes(hibernateTag) || tags.includes(anchorTag) || (!keep && tags.includes(latestTag));
  if (!changes) return;
  await confirm?.();
  if (purge) return removeAll(repository, tags, options);
  if (tags.includes(anchorTag)) await removeTag(repository, anchorTag, options);
  const hibernated = await findManifest(repository, hibernateTag, options);
  const kept = hibernated && keep ? await keepAsLatest(repository, { hibernated, at }, options) : [];
  if (hibernated) await removeHibernated(repository, { digest: hibernated.digest, kept }, options);
  if (!keep) await removeTag(repository, latestTag, options);
}

type Found = NonNullable<Awaited<ReturnType<typeof findManifest>>>;

/** Returns the tags that name the hibernated snapshot from now on. */
async function keepAsLatest(
  repository: Repository,
  { hibernated, at }: { readonly hibernated: Found; readonly at: Date },
  options: Abortable,
): Promise<readonly string[]> {
  const latest = await findManifest(repository, latestTag, options);
  if (latest?.digest === hibernated.digest) return [latestTag];
  if (latest?.restoredFrom === hibernated.digest) return []; // superseded
  const ancestor = latest !== undefined && hibernated.restoredFrom === latest.digest;
  if (latest && !ancestor) await keepAsReleased(repository, { digest: latest.digest, at }, options);
  await retagVerified(repository, { digest: hibernated.digest, tag: latestTag }, options);
  return [latestTag];
}

async function removeAll(repository: Repository, tags: readonly string[], options: Abortable): Promise<void> {
  for (const tag of tags) {
    const digest = await findDigest(repository, tag, options);
    if (digest !== undefined) await deleteByDigest(repository, digest, options);
  }
}
