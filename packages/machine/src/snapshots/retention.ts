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
import { findDigest, listTags, removeTags, retagVerified } from "./tags.ts";

export interface Retention {
  readonly afterMs: number;
  /** This many of the newest released ones stay whatever their age. */
  readonly keep: number;
  readonly now: Date;
}

/** Removes `latest`, the anchor and `released-…` that are old enough, and returns their tags. A hibernated machine never expires. */
export async function expireSnapshots(
  repository: Repository,
  { afterMs, keep, now }: Retention,
  options: Abortable,
): Promise<readonly string[]> {
  const tags = await listTags(repository, options);
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
  for (const tag of expired) await removeSnapshot(repository, tag, options);
  return expired;
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

/**
 * Removes one tag; the content goes unless another tag names it. False when the tag is not there. `conflict` for what a
 * machine is hibernated in.
 */
export async function removeSnapshot(
  repository: Repository,
  tag: string,
  options: Abortable,
): Promise<boolean> {
  const purpose = readTagPurpose(tag);
  if (purpose === "hibernated" || purpose === "claim")
    throw new Fault(
      "conflict",
      `${repository.name}:${tag} is what the machine is hibernated in, its only copy: it is not removed. Wake the machine, which drops it, or delete the set with spec.deletionPolicy: Purge`,
    );
  const digest = await findDigest(repository, tag, options);
  if (digest === undefined) return false;
  await removeTags(repository, { digest, tags: [tag] }, options);
  return true;
}

/**
 * Names an existing snapshot `hibernate`, where nothing has that name yet; returns the digest that has it afterwards.
 * Undefined when the reference names nothing.
 */
export async function adoptSnapshot(
  repository: Repository,
  reference: string,
  options: Abortable,
): Promise<string | undefined> {
  const hibernated = await findDigest(repository, hibernateTag, options);
  if (hibernated !== undefined) return hibernated;
  const digest = await findDigest(repository, reference, options);
  if (digest !== undefined) await retagVerified(repository, { digest, tag: hibernateTag }, options);
  return digest;
}
