/**
 * What a registry must know about a manifest: its media type, what it refers to, its subject. The bytes themselves
 * are never changed; unknown fields are none of our business.
 */
import * as z from "zod";
import { mediaType } from "@cocoon/contract";
import { messageOf } from "@cocoon/core";
import { tryDigest, type Digest } from "../names.ts";
import { ociFault } from "../oci-fault.ts";

const indexTypes: ReadonlySet<string> = new Set([mediaType.ociIndex, mediaType.dockerManifestList]);
const manifestTypes: ReadonlySet<string> = new Set([
  ...indexTypes,
  mediaType.ociManifest,
  mediaType.dockerManifest,
]);

/** One of the four envelopes that everybody knows. */
export function isManifestType(type: string): boolean {
  return manifestTypes.has(type);
}

const digestField = z.string().transform((text, context): Digest => {
  const digest = tryDigest(text);
  if (digest) return digest;
  context.addIssue("is not a sha256 or sha512 digest");
  return z.NEVER;
});

const descriptor = z.object({
  mediaType: z.string().optional(),
  digest: digestField,
  size: z.int().nonnegative(),
  artifactType: z.string().optional(),
  annotations: z.record(z.string(), z.string()).nullish(),
  /** Present when the content may be fetched elsewhere and need not be here. */
  urls: z.array(z.string()).nullish(),
  data: z.string().nullish(),
});

type Descriptor = z.infer<typeof descriptor>;

const wire = z.object({
  schemaVersion: z.literal(2),
  mediaType: z.string().optional(),
  artifactType: z
    .string()
    .optional()
    .transform((text) => text || undefined),
  config: descriptor.optional(),
  layers: z.array(descriptor).nullish(),
  manifests: z.array(descriptor).nullish(),
  subject: descriptor.nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
});

export interface Manifest {
  readonly mediaType: string;
  /** What the body itself says it is, if it says so. */
  readonly ownType: string | undefined;
  readonly artifactType: string | undefined;
  readonly config: Descriptor | undefined;
  readonly layers: readonly Descriptor[];
  /** Children of an index. */
  readonly manifests: readonly Descriptor[];
  readonly subject: Descriptor | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  readonly isIndex: boolean;
}

/** Reads a manifest; the type it was pushed with, if any, wins over the field in its body. */
export function readManifest(bytes: Uint8Array, pushedType?: string): Manifest {
  const data = parseWire(bytes);
  const givenType = pushedType ?? data.mediaType;
  const isIndex = givenType === undefined ? !data.config && !!data.manifests : indexTypes.has(givenType);
  return {
    ownType: data.mediaType,
    mediaType: givenType ?? (isIndex ? mediaType.ociIndex : mediaType.ociManifest),
    artifactType: data.artifactType,
    config: data.config,
    layers: data.layers ?? [],
    manifests: data.manifests ?? [],
    subject: data.subject ?? undefined,
    annotations: data.annotations ?? {},
    isIndex,
  };
}

function parseWire(bytes: Uint8Array): z.infer<typeof wire> {
  const parsed = wire.safeParse(parseJson(bytes));
  if (parsed.success) return parsed.data;
  const issue = parsed.error.issues[0];
  const where = issue?.path.join(".") || "manifest";
  throw ociFault("MANIFEST_INVALID", `${where}: ${issue?.message ?? "is malformed"}`);
}

function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (error) {
    throw ociFault("MANIFEST_INVALID", `the manifest is not JSON: ${messageOf(error)}`, { cause: error });
  }
}

/** The blobs a manifest needs to be complete: its config and layers, except those that live elsewhere. */
export function neededBlobs(manifest: Manifest): Digest[] {
  const all = manifest.config ? [manifest.config, ...manifest.layers] : manifest.layers;
  return [...new Set(all.filter((each) => !livesElsewhere(each)).map((each) => each.digest))];
}

function livesElsewhere({ mediaType = "", urls, data }: Descriptor): boolean {
  const foreign = mediaType.includes(".nondistributable.") || mediaType.includes(".foreign.");
  return foreign || (urls?.length ?? 0) > 0 || (data !== undefined && data !== null);
}

export interface ReferrerDescriptor {
  readonly mediaType: string;
  readonly digest: Digest;
  readonly size: number;
  readonly artifactType?: string;
  readonly annotations?: Readonly<Record<string, string>>;
}

/** What the referrers API says about a manifest that names a subject. */
export function referrerDescriptor(
  manifest: Manifest,
  { digest, size }: { digest: Digest; size: number },
): ReferrerDescriptor {
  const artifactType = manifest.artifactType ?? (manifest.isIndex ? undefined : manifest.config?.mediaType);
  return {
    mediaType: manifest.mediaType,
    digest,
    size,
    ...(artifactType === undefined ? {} : { artifactType }),
    ...(Object.keys(manifest.annotations).length === 0 ? {} : { annotations: manifest.annotations }),
  };
}
