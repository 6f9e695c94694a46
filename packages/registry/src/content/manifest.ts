/**
 * What a registry must know about a manifest: its media type, what it refers to, its subject. The bytes themselves
 * are never changed, and unknown fields are ignored.
 */
import * as z from "zod";
import { mediaType } from "@cocoon/contract";
import { getErrorMessage } from "@cocoon/core/fault";
import { tryDigest, type Digest } from "../names.ts";
import { findExcess } from "./json-shape.ts";
import { ociFault } from "../oci-fault.ts";

/** Far above any real manifest: layers hold about ten values each. */
const jsonLimits = { maxDepth: 64, maxValues: 500_000 };

const indexTypes: ReadonlySet<string> = new Set([mediaType.ociIndex, mediaType.dockerManifestList]);
const manifestTypes: ReadonlySet<string> = new Set([
  ...indexTypes,
  mediaType.ociManifest,
  mediaType.dockerManifest,
]);

/** What a manifest may be pushed and served as: nothing that a browser would run. */
export function isSafeType(type: string): boolean {
  return /^application\/vnd\.[a-z0-9][a-z0-9._+-]{0,120}\+json$/.test(type);
}

/** One of the four well-known envelopes. */
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
  readonly manifests: readonly Descriptor[];
  readonly subject: Descriptor | undefined;
  readonly annotations: Readonly<Record<string, string>>;
  readonly isIndex: boolean;
}

export function readManifest(bytes: Uint8Array, pushedType?: string): Manifest {
  const excess = findExcess(bytes, jsonLimits);
  if (excess !== undefined) throw ociFault("MANIFEST_INVALID", `the manifest ${excess}`);
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
    throw ociFault("MANIFEST_INVALID", `the manifest is not JSON: ${getErrorMessage(error)}`, {
      cause: error,
    });
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
