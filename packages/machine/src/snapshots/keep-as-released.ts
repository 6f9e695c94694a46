/** Gives a snapshot a tag `released-<time>`: kept, and not restored by itself. */
import { releasedTag, tryReadReleasedTag } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";
import type { Repository } from "@cocoon/oci";
import { findDigest, listTags, retagVerified } from "./tags.ts";

/**
 * Returns the tag; one that the snapshot has already is used. Times have a resolution of one second, and a tag that names
 * another snapshot is not overwritten.
 */
export async function keepAsReleased(
  repository: Repository,
  { digest, at }: { readonly digest: string; readonly at: Date },
  options: Abortable,
): Promise<string> {
  const released = (await listTags(repository, options)).filter((tag) => tryReadReleasedTag(tag));
  for (const tag of released) if ((await findDigest(repository, tag, options)) === digest) return tag;
  for (let ms = at.getTime(); ; ms += 1000) {
    const tag = releasedTag(new Date(ms));
    const named = await findDigest(repository, tag, options); // by name: the list may be stale
    if (named !== undefined && named !== digest) continue;
    await retagVerified(repository, { digest, tag }, options);
    return tag;
  }
}
