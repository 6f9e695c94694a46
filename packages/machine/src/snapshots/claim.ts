/**
 * Who may run a hibernated machine. The node that hibernated it seals the snapshot once its VM is removed. A wake
 * consumes that proof: it sets its own claim and removes the seal before it restores, so that no second node can take
 * the same snapshot for free while the first one is still starting its VM.
 *
 *   hibernate, hibernated            no VM anywhere; any node may claim
 *   hibernate, waking-a              node a restores it, or runs what it restored
 *   (nothing)                        the wake is complete, the snapshot was dropped
 */
import { claimTag, hibernateTag, mediaType, sealTag } from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import type { Repository } from "@cocoon/oci";
import { findManifest, listClaims } from "./find.ts";
import { keepAsReleased } from "./keep-as-released.ts";
import { findDigest, isNamedByAny, listTags, retagVerified, verifyTag, voidTag } from "./tags.ts";

export interface Claim {
  readonly digest: string;
  readonly node: string;
}

/** Declares that no VM of the machine exists: the snapshot may be restored anywhere. Ends a claim of this node. */
export async function sealSnapshot(
  repository: Repository,
  { digest, node }: Claim,
  options: Abortable,
): Promise<void> {
  await verifyTag(repository, { digest, tag: hibernateTag }, options);
  await retagVerified(repository, { digest, tag: sealTag }, options);
  await removeClaim(repository, node, options);
}

/**
 * Takes the snapshot for this node. `conflict` when another node claims it; of two nodes that claim at the same moment
 * at most one succeeds, because each looks again after its own claim is readable. That second list must show the claim
 * itself: a list from before it could lack another one too (`unavailable`). May be repeated.
 */
export async function claimSnapshot(
  repository: Repository,
  { digest, node }: Claim,
  options: Abortable,
): Promise<void> {
  const own = claimTag(node);
  await verifyTag(repository, { digest, tag: hibernateTag }, options);
  const held = (await findDigest(repository, own, options)) === digest;
  await assertUnclaimed(repository, { digest, node, known: [hibernateTag] }, options);
  await retagVerified(repository, { digest, tag: own }, options);
  try {
    await assertUnclaimed(repository, { digest, node, known: [hibernateTag, own] }, options);
  } catch (error) {
    // A claim that could not be checked would keep every other node out.
    if (!held && (isFault(error, "conflict") || isFault(error, "unavailable")))
      await withdrawClaim(repository, { digest, node }, options);
    throw error;
  }
  await consumeSeal(repository, digest, options);
}

/**
 * Throws `conflict` unless this node still has the snapshot. A node that stood still since its claim may have been fenced
 * meanwhile, and then another one restores it.
 */
export async function verifyClaim(
  repository: Repository,
  { digest, node }: Claim,
  options: Abortable,
): Promise<void> {
  const named = await Promise.all(
    [claimTag(node), hibernateTag].map((tag) => findDigest(repository, tag, options)),
  );
  if (named.some((each) => each !== digest))
    throw new Fault(
      "conflict",
      `${repository.name}: node ${node} does not claim ${digest} any more; another node may run the machine`,
    );
}

/** Ends a claim of this node that it has not used. Needs no tag list while `hibernate` names the snapshot as well. */
async function withdrawClaim(
  repository: Repository,
  { digest, node }: Claim,
  options: Abortable,
): Promise<void> {
  if ((await findDigest(repository, hibernateTag, options)) === digest)
    await voidTag(repository, claimTag(node), options);
  else await removeClaim(repository, node, options);
}

async function assertUnclaimed(
  repository: Repository,
  { node, ...list }: Claim & { readonly known: readonly string[] },
  options: Abortable,
): Promise<void> {
  const { digest } = list;
  const other = (await listClaims(repository, list, options)).find((each) => each !== node);
  if (other !== undefined)
    throw new Fault("conflict", `${repository.name}: node ${other} claims ${digest} to restore it`);
}

async function consumeSeal(repository: Repository, digest: string, options: Abortable): Promise<void> {
  if ((await findDigest(repository, sealTag, options)) === digest)
    await voidTag(repository, sealTag, options);
}

/**
 * Ends a claim: by the node itself, or by another one when the claimant is fenced and so runs nothing any more. No claim is
 * success. A snapshot that only the claim names stays, as a released one.
 */
export async function removeClaim(repository: Repository, node: string, options: Abortable): Promise<void> {
  const tag = claimTag(node);
  const digest = await findDigest(repository, tag, options);
  if (digest === undefined) return;
  const others = (await listTags(repository, { ...options, known: [tag] })).filter((each) => each !== tag);
  if (
    !(await isNamedByAny(repository, { digest, tags: others }, options)) &&
    !(await isVoid(repository, tag, options))
  )
    await keepAsReleased(repository, { digest, at: new Date() }, options);
  await voidTag(repository, tag, options);
}

async function isVoid(repository: Repository, tag: string, options: Abortable): Promise<boolean> {
  const found = await findManifest(repository, tag, options);
  return found?.manifest.artifactType === mediaType.snapshotAnchor;
}
