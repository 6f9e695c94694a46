/** Pushes a snapshot: content first, then config, manifest, tag. */
import {
  configFromEnvelope,
  isTag,
  manifestAnnotation,
  mediaType,
  readSnapshotEnvelope,
  snapshotArtifactType,
  type Descriptor,
  type SnapshotConfig,
} from "@cocoon/contract";
import { Fault, type Abortable } from "@cocoon/core";
import { computeDigest } from "../digest.ts";
import { writeIndex } from "../packed/index-codec.ts";
import { loadBases, type BaseReference } from "../packed/load-base.ts";
import { pushPacks } from "../packed/push-packs.ts";
import type { Repository } from "../registry/repository.ts";
import type { OnProgress } from "./progress.ts";
import { pushLayers, type PushedLayers } from "./push-layers.ts";
import { openSource, type OpenSource, type SourceFile } from "./source.ts";
import { storeArtifact, storeSmallBlob } from "./store-artifact.ts";
import type { Tools } from "./tools.ts";

export interface SnapshotSource {
  /** The content of `snapshot.json`, as an archive carries it. */
  readonly envelope: Readonly<Record<string, unknown>>;
  readonly files: readonly SourceFile[];
}

/**
 * `v1`: for epoch servers and old readers. `v2`: for every reader of today. `packed`: fine chunks that are shared
 * with earlier snapshots; only for readers that know it.
 */
export const snapshotFormats = ["v1", "v2", "packed"] as const;
export type SnapshotFormat = (typeof snapshotFormats)[number];

export interface PushSnapshotOptions extends Abortable {
  readonly source: SnapshotSource;
  readonly repository: Repository;
  readonly tag: string;
  /** Default `v2`. */
  readonly format?: SnapshotFormat;
  /**
   * Packed only: snapshots that this one may share content with: the one the machine was restored or cloned from.
   * What the tag names now is always considered. Readers of this snapshot can then read their content.
   */
  readonly base?: readonly BaseReference[];
  readonly level?: number;
  /** Version 2 only: cut size, a multiple of 1 MiB. */
  readonly chunkBytes?: number;
  readonly baseImage?: string;
  readonly annotations?: Readonly<Record<string, string>>;
  /** Pin what this node keeps of the snapshot for that machine. */
  readonly pinFor?: string;
  readonly now?: Date;
  readonly onProgress?: OnProgress;
}

export interface PushReport {
  readonly digest: string;
  readonly format: SnapshotFormat;
  /** Everything that went over the wire as content. */
  readonly bytesSent: number;
  /** Bytes of the machine that did not have to be sent because the registry had them. */
  readonly bytesReused: number;
  /** Logical size of all files, holes included. */
  readonly bytesTotal: number;
}

/** Fast and close to what higher levels reach on memory pages; see bench/snapshot.ts. */
const defaultLevel = 1;

interface Content extends Omit<PushedLayers, "encoded"> {
  readonly format: SnapshotFormat;
  readonly artifactType: string;
  readonly schemaVersion: SnapshotConfig["schemaVersion"];
}

export async function pushSnapshot(options: PushSnapshotOptions, tools: Tools): Promise<PushReport> {
  const { repository, tag, signal } = options;
  if (!isTag(tag)) throw new Fault("invalid", `"${tag.slice(0, 200)}" is not a tag`);
  const envelope = readSnapshotEnvelope(options.source.envelope);
  await using source = await openSource(options.source.files);
  using hold = options.pinFor ? tools.store?.hold([]) : undefined;
  const content = await pushContent(source, options, hold ? { ...tools, hold } : tools);
  await source.assertUnchanged();
  const createdAt = (options.now ?? new Date()).toISOString().replace(/\.\d+Z$/, "Z");
  const config = {
    schemaVersion: content.schemaVersion,
    ...configFromEnvelope(envelope),
    files: content.files,
    createdAt,
  };
  const configBytes = Buffer.from(JSON.stringify(config));
  const stored = await storeSmallBlob({ bytes: configBytes, mediaType: mediaType.snapshotConfig }, options);
  const manifest = {
    schemaVersion: 2 as const,
    mediaType: mediaType.ociManifest,
    artifactType: content.artifactType,
    config: stored.descriptor,
    layers: [...content.layers],
    annotations: {
      [manifestAnnotation.created]: createdAt,
      ...(options.baseImage ? { [manifestAnnotation.baseImage]: options.baseImage } : {}),
      ...options.annotations,
    },
  };
  const artifact = await storeArtifact(manifest, { repository, tag, signal, transfers: tools.transfers });
  await keepLocally(artifact, manifest.layers, { ...tools, ...options });
  return {
    digest: artifact.digest,
    format: content.format,
    bytesSent: content.sentBytes + stored.sentBytes + artifact.sentBytes,
    bytesReused: content.reusedBytes,
    bytesTotal: content.totalBytes,
  };
}

function pushContent(source: OpenSource, options: PushSnapshotOptions, tools: Tools): Promise<Content> {
  if (options.format === "packed") return pushPacked(source, options, tools);
  const plain = { ...options, level: 0, chunkBytes: 0 };
  return pushAsLayers(source, options.format === "v1" ? plain : options, tools);
}

async function pushAsLayers(
  source: OpenSource,
  options: PushSnapshotOptions,
  tools: Tools,
): Promise<Content> {
  const { repository, signal, level = defaultLevel, chunkBytes, onProgress } = options;
  const common = { ...tools, repository, signal, files: source.files, ...(onProgress ? { onProgress } : {}) };
  const plain = level === 0 && chunkBytes === 0;
  const pushed = await pushLayers(
    plain ? common : { ...common, level, ...(chunkBytes === undefined ? {} : { chunkBytes }) },
  );
  return {
    ...pushed,
    // A snapshot that was neither compressed nor cut stays readable for clients of version 1.
    format: pushed.encoded ? "v2" : "v1",
    schemaVersion: pushed.encoded ? "v2" : "v1",
    artifactType: snapshotArtifactType(pushed.encoded),
  };
}

async function pushPacked(source: OpenSource, options: PushSnapshotOptions, tools: Tools): Promise<Content> {
  const { repository, signal, tag, onProgress } = options;
  const earlier = [...(options.base ?? []), { repository, reference: tag }];
  const sameRegistry = earlier.filter((each) => each.repository.origin === repository.origin);
  const bases = await loadBases(sameRegistry, { ...tools, signal });
  const { index, counts } = await pushPacks({
    ...tools,
    repository,
    signal,
    bases,
    files: source.files,
    level: options.level ?? defaultLevel,
    ...(onProgress ? { onProgress } : {}),
  });
  const bytes = writeIndex(index);
  const stored = await storeSmallBlob({ bytes, mediaType: mediaType.snapshotIndex }, options);
  await tools.store?.addBlob(computeDigest(bytes), bytes);
  return {
    format: "packed",
    schemaVersion: "packed-v1",
    artifactType: mediaType.snapshotPacked,
    layers: [
      { ...stored.descriptor, annotations: { [manifestAnnotation.title]: "snapshot.index" } },
      ...index.packs.map((pack) => ({ mediaType: mediaType.snapshotPack, ...pack })),
    ],
    files: Object.fromEntries(source.files.map(({ name, mode, size }) => [name, { mode, size }])),
    sentBytes: counts.sentBytes + stored.sentBytes,
    reusedBytes: counts.reusedBytes,
    totalBytes: counts.totalBytes,
  };
}

interface KeepOptions {
  readonly store?: Tools["store"];
  readonly pinFor?: string;
}

async function keepLocally(
  artifact: { readonly digest: string; readonly bytes: Uint8Array },
  layers: readonly Descriptor[],
  { store, pinFor }: KeepOptions,
): Promise<void> {
  if (!store) return;
  await store.addBlob(artifact.digest, artifact.bytes);
  if (pinFor) store.pin(pinFor, [artifact.digest, ...layers.map((each) => each.digest)]);
}
