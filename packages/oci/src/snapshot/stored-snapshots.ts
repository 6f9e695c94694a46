/** What is done to snapshots that are in a registry: another tag, deletion, keeping only the content. */
import {
  emptyConfig,
  isTag,
  manifestAnnotation,
  manifestSchema,
  mediaType,
  type Descriptor,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { readDigest } from "../digest.ts";
import { toBlobContent } from "../registry/blob-content.ts";
import type { Repository } from "../registry/repository.ts";
import { parseJson } from "../parse-json.ts";

interface RetagOptions extends Abortable {
  readonly repository: Repository;
  /** Digest (safest) or tag of what gets the new tag. */
  readonly from: string;
  readonly to: string;
}

/** Gives a manifest another tag and returns its digest. The old tag stays. May be repeated. */
export async function retag({ repository, from, to, signal }: RetagOptions): Promise<string> {
  if (!isTag(to)) throw new Fault("invalid", `"${to.slice(0, 200)}" is not a tag`);
  const { bytes, mediaType: type } = await repository.getManifest(from, { signal });
  return repository.putManifest(to, { bytes, mediaType: type }, { signal });
}

/** Deletes a manifest with every tag on it. False when it was not there, which is as good. May be repeated. */
export async function deleteByDigest(
  repository: Repository,
  digest: string,
  { signal }: Abortable,
): Promise<boolean> {
  readDigest(digest);
  return repository.deleteManifest(digest, { signal });
}

interface AnchorOptions extends Abortable {
  readonly repository: Repository;
  readonly digest: string;
  /** The tag of the anchor. */
  readonly tag: string;
}

/**
 * Keeps the content of a packed snapshot in the registry without keeping the snapshot: a manifest that lists the same
 * packs but cannot be started. With it the next push of the machine can still build on what the registry has, after
 * the snapshot itself was used and deleted. Returns the anchor's digest; undefined when there is nothing to keep.
 */
export async function anchorSnapshot(options: AnchorOptions): Promise<string | undefined> {
  const { repository, digest, tag, signal } = options;
  const { bytes } = await repository.getManifest(digest, { signal });
  const { data: manifest } = manifestSchema.safeParse(parseJson(bytes, "manifest"));
  if (manifest?.artifactType !== mediaType.snapshotPacked) return undefined;
  const { layers, annotations } = manifest;
  return putAnchor({
    repository,
    tag,
    layers,
    created: annotations?.[manifestAnnotation.created] ?? "",
    namespace: annotations?.[manifestAnnotation.namespace] ?? "",
    signal,
  });
}

/** Makes a tag name an artifact without content: for registries that cannot remove a single tag. May be repeated. */
export async function putEmptyAnchor(options: Omit<AnchorOptions, "digest">): Promise<string> {
  return putAnchor({ ...options, layers: [], created: "", namespace: "" });
}

interface AnchorContent extends Omit<AnchorOptions, "digest"> {
  readonly layers: readonly Descriptor[];
  readonly created: string;
  /** Whose content it keeps; "" when that is not recorded. */
  readonly namespace: string;
}

async function putAnchor({ repository, tag, layers, signal, ...origin }: AnchorContent): Promise<string> {
  const anchor = {
    schemaVersion: 2,
    mediaType: mediaType.ociManifest,
    artifactType: mediaType.snapshotAnchor,
    config: emptyConfig,
    layers,
    annotations: {
      [manifestAnnotation.created]: origin.created,
      ...(origin.namespace === "" ? {} : { [manifestAnnotation.namespace]: origin.namespace }),
    },
  };
  await repository.putBlob(toBlobContent(Buffer.from("{}")), { signal });
  const body = { bytes: Buffer.from(JSON.stringify(anchor, null, 2)), mediaType: mediaType.ociManifest };
  return repository.putManifest(tag, body, { signal });
}
