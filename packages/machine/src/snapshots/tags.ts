/** Tags of one repository: read, set and verified, removed. The building blocks of everything else in this directory. */
import { readTagPurpose, sealTag } from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import { deleteByDigest, putEmptyAnchor, retag, type Repository } from "@cocoon/oci";

/** The digest that a tag names; undefined when the registry answered that it names nothing. */
export async function findDigest(
  repository: Repository,
  tag: string,
  options: Abortable,
): Promise<string | undefined> {
  return (await repository.headManifest(tag, options))?.digest;
}

/** More tags than a machine's repository ever has by itself; beyond, a decision would rest on a part of them. */
const maxTags = 10_000;

/**
 * All tags of the repository. `known` are tags that were read by name just now: a list without them is stale or incomplete
 * (some registries answer 404 to it, or from a cache), so what it lacks is not absent, and the call is `unavailable`.
 */
export async function listTags(
  repository: Repository,
  { known = [], signal }: Abortable & { readonly known?: readonly string[] },
): Promise<readonly string[]> {
  const tags = await readTags(repository, { signal });
  const missing = known.find((tag) => !tags.includes(tag));
  if (missing !== undefined)
    throw new Fault(
      "unavailable",
      `the registry's tag list of ${repository.name} lacks "${missing}", which exists: nothing is decided by such a list. Use a registry whose tags/list is complete and current`,
    );
  return tags;
}

async function readTags(repository: Repository, options: Abortable): Promise<readonly string[]> {
  const tags: string[] = [];
  try {
    for await (const tag of repository.tags(options)) {
      tags.push(tag);
      if (tags.length > maxTags)
        throw new Fault("tooLarge", `${repository.name} has more than ${maxTags} tags; remove old ones`);
    }
  } catch (error) {
    if (!isFault(error, "methodNotAllowed") && !isFault(error, "notSupported")) throw error;
    const message = `the registry does not list the tags of ${repository.name}, which hibernated machines need`;
    throw new Fault("unavailable", `${message}: ${error.message}`, { cause: error });
  }
  return tags;
}

export interface TagTarget {
  readonly digest: string;
  readonly tag: string;
}

/** Sets a tag and reads it back: only what the registry names afterwards counts. May be repeated. */
export async function retagVerified(
  repository: Repository,
  { digest, tag }: TagTarget,
  { signal }: Abortable,
): Promise<void> {
  await retag({ repository, from: digest, to: tag, signal });
  await verifyTag(repository, { digest, tag }, { signal });
}

/** Throws `conflict` unless the tag names the digest now. */
export async function verifyTag(
  repository: Repository,
  { digest, tag }: TagTarget,
  options: Abortable,
): Promise<void> {
  const named = await findDigest(repository, tag, options);
  if (named !== digest)
    throw new Fault(
      "conflict",
      `${repository.name}:${tag} must name ${digest}, but names ${named ?? "nothing"}; another writer is at work`,
    );
}

interface Removal {
  readonly digest: string;
  readonly tags: readonly string[];
  readonly kept?: readonly string[];
}

/**
 * Removes tags from a digest; the manifest itself is deleted when no other tag names it, which works in registries that
 * cannot remove single tags. A tag that names another digest by now stays. `kept` are tags that were given to the digest
 * just now, so that an older list is noticed. May be repeated.
 */
export async function removeTags(
  repository: Repository,
  { digest, tags, kept = [] }: Removal,
  options: Abortable,
): Promise<void> {
  const naming: string[] = [];
  for (const tag of tags) if ((await findDigest(repository, tag, options)) === digest) naming.push(tag);
  if (naming.length === 0) return;
  const others = (await listTags(repository, { ...options, known: [...naming, ...kept] })).filter(
    (tag) => !tags.includes(tag),
  );
  if (!(await isNamedByAny(repository, { digest, tags: others }, options))) {
    await deleteByDigest(repository, digest, options);
    return;
  }
  for (const tag of naming)
    await (isMark(tag) ? voidTag(repository, tag, options) : untag(repository, tag, options));
}

/** Removes one tag, and the manifest when no other tag names it. Absent is success. */
export async function removeTag(repository: Repository, tag: string, options: Abortable): Promise<void> {
  const digest = await findDigest(repository, tag, options);
  if (digest !== undefined) await removeTags(repository, { digest, tags: [tag] }, options);
}

/** Seal and claims say something about a digest; nothing is ever restored by their name. */
function isMark(tag: string): boolean {
  return tag === sealTag || readTagPurpose(tag) === "claim";
}

export async function isNamedByAny(
  repository: Repository,
  { digest, tags }: { readonly digest: string; readonly tags: readonly string[] },
  options: Abortable,
): Promise<boolean> {
  for (const tag of tags) if ((await findDigest(repository, tag, options)) === digest) return true;
  return false;
}

/** Removes a seal or claim; in a registry that deletes only by digest it is made to name an empty artifact instead. */
export async function voidTag(repository: Repository, tag: string, options: Abortable): Promise<void> {
  try {
    await untag(repository, tag, options);
  } catch (error) {
    if (!isFault(error, "notSupported")) throw error;
    await putEmptyAnchor({ repository, tag, ...options });
  }
}

/** Removes one tag. `notSupported` from a registry that only deletes by digest. */
async function untag(repository: Repository, tag: string, options: Abortable): Promise<void> {
  try {
    await repository.deleteManifest(tag, options);
  } catch (error) {
    const refused = ["methodNotAllowed", "notSupported", "badRequest"] as const;
    if (!refused.some((code) => isFault(error, code))) throw error;
    throw new Fault(
      "notSupported",
      `the registry does not remove single tags, and another tag names the same snapshot; remove ${repository.name}:${tag} by hand`,
      { cause: error },
    );
  }
}
