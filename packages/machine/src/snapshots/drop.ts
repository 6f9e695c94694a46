/** Ends of a hibernated snapshot: dropped with proof, released, or settled when its set is deleted. */
import { anchorTag, hibernateTag, latestTag, sealTag, tryReadClaimTag } from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { anchorSnapshot, deleteByDigest, type Repository } from "@cocoon/oci";
import { findManifest } from "./find.ts";
import { isOwnedBy } from "./owner.ts";
import { keepAsReleased } from "./keep-as-released.ts";
import { listTags, removeTag, removeTags, retagVerified } from "./tags.ts";

export interface Drop {
  /** The snapshot to drop. */
  readonly digest: string;
  /** Of the machine. */
  readonly namespace: string;
  /** The proof of descent: digest that the running VM was restored from. */
  readonly restoredFrom: string;
  /** Id of the running VM: a snapshot that was saved of this very VM, which then continued, may go as well. */
  readonly vmId?: string;
}

/** `absent`: there is no hibernated snapshot any more. `kept`: tag `hibernate` names another one, or another namespace's, which stays. */
export type DropOutcome = "dropped" | "absent" | "kept";

/**
 * Removes the snapshot of a machine that was woken from it; of a packed one the content stays for the next push. Throws `preconditionFailed` without proof of descent. Other tags
 * on the digest keep the content. May be repeated.
 */
export async function dropSnapshot(
  repository: Repository,
  { digest, namespace, restoredFrom, vmId = "" }: Drop,
  options: Abortable,
): Promise<DropOutcome> {
  const hibernated = await findManifest(repository, hibernateTag, options);
  const proven = restoredFrom === digest || (vmId !== "" && hibernated?.vmId === vmId);
  if (digest === "" || !proven)
    throw new Fault(
      "preconditionFailed",
      `${repository.name}: ${digest || "no digest"} is not dropped, because the running VM was restored from ${restoredFrom || "no snapshot"}`,
    );
  if (hibernated?.digest === digest && isOwnedBy(hibernated, namespace)) {
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

export interface Release {
  readonly at: Date;
  /** Of the machine. */
  readonly namespace: string;
  /** Only this one. */
  readonly digest?: string;
}

/**
 * Renames a hibernated snapshot: a later machine of that name boots fresh, and `cocoonctl snapshot restore` brings the old one
 * back. Undefined when the namespace has none; with `digest`, also when `hibernate` names another one. May be repeated.
 */
export async function releaseSnapshot(
  repository: Repository,
  { at, namespace, digest: wanted }: Release,
  options: Abortable,
): Promise<Released | undefined> {
  const hibernated = await findManifest(repository, hibernateTag, options);
  if (!hibernated || !isOwnedBy(hibernated, namespace)) return undefined;
  const { digest } = hibernated;
  if (wanted !== undefined && wanted !== digest) return undefined;
  const tag = await keepAsReleased(repository, { digest, at }, options);
  await removeHibernated(repository, { digest, kept: [tag] }, options);
  return { digest, tag };
}

export interface Settlement {
  /** Of the machine. */
  readonly namespace: string;
  /** The policy asks for a snapshot `latest` of this machine. */
  readonly keep: boolean;
  /** Nothing at all is to stay. */
  readonly purge: boolean;
  readonly at: Date;
  /** Called before anything is changed; what it throws ends the settlement. Not called where nothing has to change. */
  readonly confirm?: () => Promise<void>;
}

/**
 * The machine's set is deleted: what it is hibernated in becomes `latest`, or goes. What another namespace has under the same
 * VM name stays as it is. An older `latest` of which the order is
 * not proven by descent is kept as a released one: clocks of nodes do not decide.
 */
export async function settleSnapshots(
  repository: Repository,
  { namespace, keep, purge, at, confirm }: Settlement,
  options: Abortable,
): Promise<void> {
  // One listing instead of a lookup per tag: of most machines nothing is there.
  const tags = await listTags(repository, options);
  const changed = purge
    ? tags
    : [hibernateTag, anchorTag, ...(keep ? [] : [latestTag])].filter((tag) => tags.includes(tag));
  const own = await findOwn(repository, { tags: changed, namespace }, options);
  if (own.size === 0) return;
  await confirm?.();
  if (purge) {
    for (const { digest } of own.values()) await deleteByDigest(repository, digest, options);
    return;
  }
  if (own.has(anchorTag)) await removeTag(repository, anchorTag, options);
  const hibernated = own.get(hibernateTag);
  const kept =
    hibernated && keep ? await keepAsLatest(repository, { hibernated, namespace, at }, options) : [];
  if (hibernated) await removeHibernated(repository, { digest: hibernated.digest, kept }, options);
  if (own.has(latestTag)) await removeTag(repository, latestTag, options);
}

/** Those tags that name a snapshot of the namespace. */
async function findOwn(
  repository: Repository,
  { tags, namespace }: { readonly tags: readonly string[]; readonly namespace: string },
  options: Abortable,
): Promise<ReadonlyMap<string, Found>> {
  const own = new Map<string, Found>();
  for (const tag of tags) {
    const found = await findManifest(repository, tag, options);
    if (found && isOwnedBy(found, namespace)) own.set(tag, found);
  }
  return own;
}

type Found = NonNullable<Awaited<ReturnType<typeof findManifest>>>;

/** Returns the tags that name the hibernated snapshot from now on. */
async function keepAsLatest(
  repository: Repository,
  { hibernated, namespace, at }: { readonly hibernated: Found } & Pick<Settlement, "namespace" | "at">,
  options: Abortable,
): Promise<readonly string[]> {
  const latest = await findManifest(repository, latestTag, options);
  if (latest?.digest === hibernated.digest) return [latestTag];
  // The name `latest` is another namespace's: the snapshot stays under a name that is free.
  if (latest && !isOwnedBy(latest, namespace))
    return [await keepAsReleased(repository, { digest: hibernated.digest, at }, options)];
  if (latest?.restoredFrom === hibernated.digest) return []; // superseded
  const ancestor = latest !== undefined && hibernated.restoredFrom === latest.digest;
  if (latest && !ancestor) await keepAsReleased(repository, { digest: latest.digest, at }, options);
  await retagVerified(repository, { digest: hibernated.digest, tag: latestTag }, options);
  return [latestTag];
}
