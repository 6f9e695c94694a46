/** Finds a snapshot in a repository and reads what it says about itself. */
import {
  classifyManifest,
  maxSnapshotConfigBytes,
  mediaType,
  readSnapshotConfig,
  readSnapshotManifest,
  type ArtifactKind,
  type Manifest,
  type SnapshotConfig,
} from "@cocoon/contract";
import { Fault, isFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { parseJson } from "../parse-json.ts";
import type { Repository, StoredManifest } from "../registry/repository.ts";

export interface FoundSnapshot {
  readonly digest: string;
  readonly manifest: Manifest;
  readonly config: SnapshotConfig;
}

/**
 * `notFound` when there is no manifest, `damaged` when the manifest is there and what it refers to is not, `invalid` when it
 * is something else or malformed.
 */
export async function readSnapshot(
  repository: Repository,
  reference: string,
  options: Abortable,
): Promise<FoundSnapshot> {
  const stored = await resolveManifest(repository, reference, options);
  const kind = readArtifactKind(stored.bytes);
  if (kind !== "snapshot")
    throw new Fault("invalid", `${repository.name}:${reference} is not a snapshot but of kind ${kind}`);
  const manifest = readSnapshotManifest(parseJson(stored.bytes, "manifest"));
  const { digest, size } = manifest.config;
  if (size > maxSnapshotConfigBytes)
    throw new Fault("tooLarge", `${repository.name}: a snapshot config of ${size} bytes`);
  const bytes = await asDamage(
    repository.readBlob({ digest, size }, options),
    `${repository.name}@${stored.digest}: the snapshot's config ${digest} is missing`,
  );
  return { digest: stored.digest, manifest, config: readSnapshotConfig(parseJson(bytes, "snapshot config")) };
}

const headSchema = z.looseObject({
  mediaType: z.string().optional(),
  artifactType: z.string().optional(),
  config: z.looseObject({ mediaType: z.string().optional() }).optional(),
});

/** What a stored manifest describes; `unknown` when it cannot be read. */
export function readArtifactKind(bytes: Uint8Array): ArtifactKind {
  const parsed = headSchema.safeParse(parseJson(bytes, "manifest"));
  return parsed.success ? classifyManifest(parsed.data) : "unknown";
}

const indexSchema = z.looseObject({
  manifests: z
    .array(
      z.looseObject({
        digest: z.string(),
        platform: z
          .looseObject({ os: z.string().optional(), architecture: z.string().optional() })
          .optional(),
      }),
    )
    .max(10_000),
});

/** The manifest itself, or the fitting child of an index: linux/amd64, else the first of a known architecture. */
export async function resolveManifest(
  repository: Repository,
  reference: string,
  options: Abortable,
): Promise<StoredManifest> {
  const stored = await repository.getManifest(reference, options);
  const parsed = indexSchema.safeParse(parseJson(stored.bytes, "manifest"));
  const isIndex = [mediaType.ociIndex, mediaType.dockerManifestList].some(
    (type) => type === stored.mediaType,
  );
  if (!isIndex || !parsed.success) return stored;
  const known = parsed.data.manifests.filter(
    (each) => each.platform && each.platform.architecture !== "unknown",
  );
  const fitting = known.find(
    (each) => each.platform?.os === "linux" && each.platform.architecture === "amd64",
  );
  const child = fitting ?? known[0];
  if (!child)
    throw new Fault("invalid", `${repository.name}:${reference} is an index without a usable entry`);
  return asDamage(
    repository.getManifest(child.digest, options),
    `${repository.name}:${reference}: the index refers to ${child.digest}, which is missing`,
  );
}

/** What a manifest refers to and the registry does not have: not absence of the snapshot, but damage to it. */
export async function asDamage<T>(reading: Promise<T>, message: string): Promise<T> {
  try {
    return await reading;
  } catch (error) {
    if (isFault(error, "notFound")) throw new Fault("damaged", message, { cause: error });
    throw error;
  }
}
