/** Snapshots that no machine is hibernated in: expired by age, removed or adopted by name. */
import {
  anchorTag,
  hibernateTag,
  latestTag,
  manifestAnnotation,
  readTagPurpose,
  tryReadReleasedTag,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import type { Repository } from "@cocoon/oci";
import { findManifest } from "./find.ts";
import { isOwnedBy } from "./owner.ts";
import { findDigest, listTags, removeTags, retagVerified } from "./tags.ts";

export interface Retention {
  /** Of the machine. Snapshots of another namespace's machine of that name stay, and do not count. */
  readonly namespace: string;
  readonly afterMs: number;
  /** This many of the newest released ones stay whatever their age. */
  readonly keep: number;
  readonly now: Date;
}

/** Removes `latest`, the anchor and `released-…` that are old enough, and returns their tags. A hibernated machine never expires. */
export async function expireSnapshots(
  repository: Repository,
  { namespace, afterMs, keep, now }: Retention,
  options: Abortable,
): Promise<readonly string[]> {
  const all = await listTags(repository, options);
  const tags = await filterOwn(repository, { tags: all.filter(canExpire), namespace }, options);
  const oldest = now.getTime() - afterMs;
  const released = tags
    .flatMap((tag) => {
      const at = tryReadReleasedTag(tag)?.getTime();
      return at === undefined ? [] : [{ tag, at }];
    })
    .sort((left, right) => right.at - left.at)
    .slice(keep)
    .filter(({ at }) => at < oldest)
    .map(({ tag }) => tag);
  const expired = [...released];
  for (const tag of [latestTag, anchorTag].filter((each) => tags.includes(each))) {
    const created = await readCreated(repository, tag, options);
    if (created !== undefined && created < oldest) expired.push(tag);
  }
  for (const tag of expired) await removeSnapshot(repository, { tag, namespace }, options);
  return expired;
}

function canExpire(tag: string): boolean {
  return tag === latestTag || tag === anchorTag || tryReadReleasedTag(tag) !== undefined;
}

async function filterOwn(
  repository: Repository,
  { tags, namespace }: { readonly tags: readonly string[]; readonly namespace: string },
  options: Abortable,
): Promise<readonly string[]> {
  const own: string[] = [];
  for (const tag of tags) {
    const found = await findManifest(repository, tag, options);
    if (found && isOwnedBy(found, namespace)) own.push(tag);
  }
  return own;
}

async function readCreated(
  repository: Repository,
  tag: string,
  options: Abortable,
): Promise<number | undefined> {
  const found = await findManifest(repository, tag, options);
  const at = Date.parse(found?.manifest.annotations?.[manifestAnnotation.created] ?? "");
  return Number.isNaN(at) ? undefined : at;
}

export interface OwnTag {
  readonly tag: string;
  /** Of the machine. */
  readonly namespace: string;
}

/**
 * Removes one tag; the content goes unless another tag names it. False when the tag is not there. `conflict` for what a
 * machine is hibernated in, `forbidden` for a snapshot of another namespace's machine.
 */
export async function removeSnapshot(
  repository: Repository,
  { tag, namespace }: OwnTag,
  options: Abortable,
): Promise<boolean> {
  const purpose = readTagPurpose(tag);
  if (purpose === "hibernated" || purpose === "claim")
    throw new Fault(
      "conflict",
      `${repository.name}:${tag} is what the machine is hibernated in, its only copy: it is not removed. Wake the machine, which drops it, or delete the set with spec.deletionPolicy: Purge`,
    );
  const found = await findManifest(repository, tag, options);
  if (!found) return false;
  if (!isOwnedBy(found, namespace))
    throw new Fault(
      "forbidden",
      `${repository.name}:${tag} is a snapshot of a machine in namespace ${found.namespace}, not in ${namespace}: it is not removed. Name its namespace`,
    );
  await removeTags(repository, { digest: found.digest, tags: [tag] }, options);
  return true;
}

/**
 * Names an existing snapshot `hibernate`, where nothing has that name yet; returns the digest that has it afterwards.
 * Undefined when the tag names nothing, or a snapshot of another namespace's machine.
 */
export async function adoptSnapshot(
  repository: Repository,
  { tag, namespace }: OwnTag,
  options: Abortable,
): Promise<string | undefined> {
  const hibernated = await findDigest(repository, hibernateTag, options);
  if (hibernated !== undefined) return hibernated;
  const found = await findManifest(repository, tag, options);
  if (!found || !isOwnedBy(found, namespace)) return undefined;
  await retagVerified(repository, { digest: found.digest, tag: hibernateTag }, options);
  return found.digest;
}
