/**
 * Manifest and config blob of a snapshot. Version 2 is used when a layer is compressed or split; readers of version 1 refuse it.
 * A file is one layer titled with its name; a split file one layer per chunk, ordered by `files[title].chunks`.
 */
import { Fault } from "@cocoon/core/fault";
import * as z from "zod";
import { manifestSchema, type Descriptor, type Manifest } from "./manifest.ts";
import { isCompressedType, isSnapshotLayerType, manifestAnnotation, mediaType } from "./media-types.ts";
import { parseWith } from "./schema.ts";

/** Sparse maps of fragmented disks reached 1.4 MB; this is the limit newer readers agreed on. */
export const maxSnapshotConfigBytes = 64 * 1024 * 1024;
export const maxChunksPerFile = 2 ** 20;

const fileSchema = z.looseObject({
  /** Permission bits; 0640 when absent. */
  mode: z.int().min(0).max(0o7777).optional(),
  /** `[{"o":offset,"l":length},…]`, verbatim from the archive. */
  sparseMap: z.string().optional(),
  sparseSize: z.int().min(0).optional(),
  size: z.int().min(0).optional(),
  /** Digests of the chunks in order; authoritative. */
  chunks: z.array(z.string()).max(maxChunksPerFile).optional(),
});

const snapshotConfigSchema = z.looseObject({
  schemaVersion: z.enum(["v1", "v2", "packed-v1"]),
  snapshotId: z.string(),
  description: z.string().optional(),
  image: z.string().optional(),
  imageDigest: z.string().optional(),
  imageType: z.string().optional(),
  imageBlobIds: z.record(z.string(), z.looseObject({})).optional(),
  hypervisor: z.string().optional(),
  cpu: z.int().min(0).optional(),
  memory: z.int().min(0).optional(),
  storage: z.int().min(0).optional(),
  nics: z.int().min(0).optional(),
  network: z.string().optional(),
  windows: z.boolean().optional(),
  files: z.record(z.string(), fileSchema).optional(),
  createdAt: z.string().optional(),
});

export type SnapshotConfig = z.output<typeof snapshotConfigSchema>;
export type SnapshotFile = z.output<typeof fileSchema>;
export type SnapshotVersion = SnapshotConfig["schemaVersion"];

export function readSnapshotConfig(value: unknown): SnapshotConfig {
  return parseWith(snapshotConfigSchema, value, "snapshot config");
}

/** Checks the manifest alone; `assembleSnapshot` checks it together with its config. */
export function readSnapshotManifest(value: unknown): Manifest {
  const manifest = parseWith(manifestSchema, value, "snapshot manifest");
  readSnapshotVersion(manifest);
  if (manifest.config.mediaType !== mediaType.snapshotConfig)
    throw invalid(`its config is ${manifest.config.mediaType}, not ${mediaType.snapshotConfig}`);
  return manifest;
}

export function readSnapshotVersion(manifest: Pick<Manifest, "artifactType">): SnapshotVersion {
  if (manifest.artifactType === mediaType.snapshotV1) return "v1";
  if (manifest.artifactType === mediaType.snapshotV2) return "v2";
  if (manifest.artifactType === mediaType.snapshotPacked) return "packed-v1";
  throw invalid(`artifact type "${manifest.artifactType ?? ""}" is not a snapshot`);
}

export interface SnapshotPart {
  readonly name: string;
  readonly layers: readonly Descriptor[];
  readonly compressed: boolean;
  /** Bytes of the file (of its data, when sparse); undefined in version 1, where it is the layer's own size. */
  readonly sizeBytes: number | undefined;
  readonly file: SnapshotFile;
}

/** The files of a snapshot in manifest order. Refuses everything that a reader must not guess about. */
export function assembleSnapshot(manifest: Manifest, config: SnapshotConfig): readonly SnapshotPart[] {
  const version = agreedVersion(manifest, config);
  if (version === "packed-v1") throw invalid("its content is in packs, not in one layer per file");
  return [...Map.groupBy(manifest.layers, readTitle)].map(([name, layers]) =>
    buildPart({ name, layers, file: config.files?.[name] ?? {}, version }),
  );
}

function agreedVersion(manifest: Manifest, config: SnapshotConfig): SnapshotVersion {
  const version = readSnapshotVersion(manifest);
  if (config.schemaVersion !== version)
    throw invalid(`its manifest says ${version}, its config ${config.schemaVersion}`);
  return version;
}

export interface PackedSnapshot {
  readonly index: Descriptor;
  readonly packs: readonly Descriptor[];
}

/** The layers of a packed snapshot: one index, then its packs and nothing else. */
export function assemblePackedSnapshot(manifest: Manifest, config: SnapshotConfig): PackedSnapshot {
  if (agreedVersion(manifest, config) !== "packed-v1") throw invalid("its content is not in packs");
  const [index, ...packs] = manifest.layers;
  if (index?.mediaType !== mediaType.snapshotIndex) throw invalid("its first layer is not an index");
  const stranger = packs.find((layer) => layer.mediaType !== mediaType.snapshotPack);
  if (stranger) throw invalid(`layer ${stranger.digest} has unknown type ${stranger.mediaType}`);
  return { index, packs };
}

function readTitle(layer: Descriptor): string {
  const title = layer.annotations?.[manifestAnnotation.title] ?? "";
  if (!isSnapshotLayerType(layer.mediaType))
    throw invalid(`layer ${layer.digest} has unknown type ${layer.mediaType}`);
  if (title === "" || title === "." || title === ".." || /[/\\\0]/.test(title))
    throw invalid(`layer ${layer.digest} has no usable title ("${title}")`);
  return title;
}

function buildPart({
  name,
  layers,
  file,
  version,
}: Pick<SnapshotPart, "name" | "layers" | "file"> & { readonly version: SnapshotVersion }): SnapshotPart {
  const compressed = layers.some((layer) => isCompressedType(layer.mediaType));
  const ordered = file.chunks === undefined ? layers : inChunkOrder(name, layers, file.chunks);
  const encoded = compressed || file.chunks !== undefined;
  if (encoded && version === "v1")
    throw invalid(`file "${name}" is compressed or split, which version 1 does not know`);
  if (encoded && !file.size)
    throw invalid(`file "${name}" is compressed or split but its size is not recorded`);
  if (file.chunks === undefined && layers.length > 1)
    throw invalid(`file "${name}" has ${layers.length} layers but no order of chunks`);
  if (compressed && !layers.every((layer) => isCompressedType(layer.mediaType)))
    throw invalid(`file "${name}" mixes compressed and plain chunks`);
  return { name, layers: ordered, compressed, sizeBytes: file.size, file };
}

function inChunkOrder(name: string, layers: readonly Descriptor[], chunks: readonly string[]): Descriptor[] {
  const byDigest = new Map(layers.map((layer) => [layer.digest, layer]));
  return chunks.map((digest) => {
    const layer = byDigest.get(digest);
    if (layer === undefined) throw invalid(`chunk ${digest} of file "${name}" is not among the layers`);
    return layer;
  });
}

/** The artifact type a writer has to use: plain snapshots stay readable for all readers. */
export function snapshotArtifactType(encoded: boolean): string {
  return encoded ? mediaType.snapshotV2 : mediaType.snapshotV1;
}

function invalid(why: string): Fault {
  return new Fault("invalid", `not a readable snapshot: ${why}`);
}
