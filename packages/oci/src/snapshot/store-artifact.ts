/**
 * The last steps of every push. The manifest is stored under its digest first: from then on no garbage collection
 * takes what it lists. Only then is looked whether all of it is there, and only then does the tag move. So a tag
 * never names something incomplete, and a push that dies leaves at most content that no manifest refers to.
 */
import { mediaType, type Descriptor, type Manifest } from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { computeDigest } from "../digest.ts";
import { toBlobContent } from "../registry/blob-content.ts";
import type { Repository } from "../registry/repository.ts";
import { forEachParallel } from "../work/parallel.ts";

/** As the Go systems write it: two spaces, no newline at the end. */
function manifestBytes(manifest: Manifest): Buffer {
  return Buffer.from(JSON.stringify(manifest, null, 2));
}

interface StoreOptions extends Abortable {
  readonly repository: Repository;
  readonly tag: string;
  readonly transfers: number;
}

interface StoredArtifact {
  readonly digest: string;
  readonly bytes: Buffer;
  /** The manifest goes over the wire twice, under its digest and under its tag. */
  readonly sentBytes: number;
}

export async function storeArtifact(manifest: Manifest, options: StoreOptions): Promise<StoredArtifact> {
  const { repository, tag, signal } = options;
  const bytes = manifestBytes(manifest);
  const digest = computeDigest(bytes);
  const body = { bytes, mediaType: manifest.mediaType ?? mediaType.ociManifest };
  await repository.putManifest(digest, body, { signal });
  await assertComplete(manifest, options);
  await repository.putManifest(tag, body, { signal });
  const stored = await repository.headManifest(tag, { signal });
  if (stored?.digest !== digest)
    throw new Fault(
      "conflict",
      `${repository.name}:${tag} is ${stored?.digest ?? "gone"} right after ${digest} was stored: another client moved it`,
    );
  return { digest, bytes, sentBytes: bytes.length * 2 };
}

async function assertComplete(manifest: Manifest, options: StoreOptions): Promise<void> {
  const { repository, signal } = options;
  const blobs = new Map([manifest.config, ...manifest.layers].map((each) => [each.digest, each]));
  await forEachParallel(blobs.values(), options.transfers, async ({ digest, size }) => {
    const found = await repository.headBlob(digest, { signal });
    // A registry may leave the size out of a HEAD; it may not say a wrong one.
    if (found && (Number.isNaN(found.size) || found.size === size)) return;
    throw new Fault(
      "unavailable",
      `${repository.name}: ${digest} was there and is ${found ? "of another size" : "gone"}; push again`,
    );
  });
}

/** Stores a small blob; how to refer to it, and how many bytes that took. */
export async function storeSmallBlob(
  blob: { readonly bytes: Uint8Array; readonly mediaType: string },
  { repository, signal }: Pick<StoreOptions, "repository" | "signal">,
): Promise<{ readonly descriptor: Descriptor; readonly sentBytes: number }> {
  const content = toBlobContent(blob.bytes);
  let sentBytes = 0;
  const onSent = (bytes: number): void => void (sentBytes += bytes);
  await repository.putBlob(content, { signal, onSent });
  const { digest, size } = content;
  return { descriptor: { mediaType: blob.mediaType, digest, size }, sentBytes };
}
