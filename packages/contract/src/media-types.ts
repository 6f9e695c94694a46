/** Media types and annotation names of the artifacts in the registry, and what kind of thing a manifest describes. */
const vendor = "application/vnd.cocoonstack";

export const mediaType = {
  snapshotV1: `${vendor}.snapshot.v1+json`,
  snapshotV2: `${vendor}.snapshot.v2+json`,
  /** Chunks in packs with an index; see packages/oci/FORMAT.md. Other readers refuse it as unknown. */
  snapshotPacked: `${vendor}.snapshot.packed.v1+json`,
  /** Keeps the packs of a snapshot that is gone; cannot be started. */
  snapshotAnchor: `${vendor}.snapshot.anchor.v1+json`,
  /** Files of a COPY step that wait for the build of a template. */
  templateFiles: `${vendor}.template.files.v1+json`,
  snapshotIndex: `${vendor}.snapshot.index.v1`,
  snapshotPack: `${vendor}.snapshot.pack.v1`,
  snapshotConfig: `${vendor}.snapshot.config.v1+json`,
  osImage: `${vendor}.os-image.v1+json`,
  /** The older name of an OS image. */
  windowsImage: `${vendor}.windows-image.v1+json`,

  vmConfig: `${vendor}.vm.config+json`,
  vmState: `${vendor}.vm.state+json`,
  vmMemory: `${vendor}.vm.memory`,
  vmCidata: `${vendor}.vm.cidata`,
  diskQcow2: `${vendor}.disk.qcow2`,
  diskRaw: `${vendor}.disk.raw`,
  other: "application/octet-stream",

  ociManifest: "application/vnd.oci.image.manifest.v1+json",
  ociIndex: "application/vnd.oci.image.index.v1+json",
  ociImageConfig: "application/vnd.oci.image.config.v1+json",
  ociEmpty: "application/vnd.oci.empty.v1+json",
  dockerManifest: "application/vnd.docker.distribution.manifest.v2+json",
  dockerManifestList: "application/vnd.docker.distribution.manifest.list.v2+json",
  dockerImageConfig: "application/vnd.docker.container.image.v1+json",
} as const;

export const zstdSuffix = "+zstd";

/** The config of manifests that need none: the two bytes `{}`. */
export const emptyConfig = {
  mediaType: mediaType.ociEmpty,
  digest: "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
  size: 2,
} as const;

export const manifestAnnotation = {
  created: "org.opencontainers.image.created",
  source: "org.opencontainers.image.source",
  revision: "org.opencontainers.image.revision",
  title: "org.opencontainers.image.title",
  baseImage: "cocoonstack.snapshot.baseimage",
  /** Node the machine slept on, where the newest kubelets record it. */
  fromNode: "cocoonstack.snapshot.from-node",
  namespace: "cocoonstack.snapshot.namespace",
  /** Id of the VM that was saved. Ours. */
  vmId: "cocoonstack.snapshot.vm-id",
  /** Digest of the snapshot that the VM was restored from, where it was. Orders two snapshots without a clock. Ours. */
  restoredFrom: "cocoonstack.snapshot.restored-from",
  chunkIndex: "cocoonstack.chunk.index",
  chunkCount: "cocoonstack.chunk.count",
} as const;

const snapshotTypes: ReadonlySet<string> = new Set([
  mediaType.snapshotV1,
  mediaType.snapshotV2,
  mediaType.snapshotPacked,
]);

const snapshotLayerTypes: ReadonlySet<string> = new Set([
  mediaType.vmConfig,
  mediaType.vmState,
  mediaType.vmMemory,
  mediaType.vmCidata,
  mediaType.diskQcow2,
  mediaType.diskRaw,
  mediaType.other,
]);

/** Disk layers of a cloud image: current and older names, whole or split in parts. */
const diskTypes: ReadonlySet<string> = new Set(
  [`${vendor}.disk`, `${vendor}.windows.disk`].flatMap((prefix) =>
    ["qcow2", "raw"].flatMap((format) => [`${prefix}.${format}`, `${prefix}.${format}.part`]),
  ),
);

export function isSnapshotLayerType(type: string): boolean {
  return snapshotLayerTypes.has(uncompressedType(type));
}

export function isDiskType(type: string): boolean {
  return diskTypes.has(type);
}

export function isCompressedType(type: string): boolean {
  return type.endsWith(zstdSuffix);
}

function uncompressedType(type: string): string {
  return isCompressedType(type) ? type.slice(0, -zstdSuffix.length) : type;
}

const typesByFile: Readonly<Record<string, string>> = {
  "config.json": mediaType.vmConfig,
  "state.json": mediaType.vmState,
  "memory-ranges": mediaType.vmMemory,
  "cidata.img": mediaType.vmCidata,
};

export function snapshotLayerType(fileName: string): string {
  if (Object.hasOwn(typesByFile, fileName)) return typesByFile[fileName] ?? mediaType.other;
  if (fileName.endsWith(".qcow2")) return mediaType.diskQcow2;
  return fileName.endsWith(".raw") ? mediaType.diskRaw : mediaType.other;
}

const artifactKinds = ["snapshot", "cloud-image", "container-image", "image-index", "unknown"] as const;
export type ArtifactKind = (typeof artifactKinds)[number];

export interface ManifestHead {
  readonly mediaType?: string | undefined;
  readonly artifactType?: string | undefined;
  readonly config?: { readonly mediaType?: string | undefined } | undefined;
}

/** What a manifest describes; the artifact type decides first, then the config, then the envelope. */
export function classifyManifest(manifest: ManifestHead): ArtifactKind {
  const artifact = manifest.artifactType;
  if (artifact === mediaType.osImage || artifact === mediaType.windowsImage) return "cloud-image";
  if (artifact !== undefined && snapshotTypes.has(artifact)) return "snapshot";
  const config = manifest.config?.mediaType;
  if (config === mediaType.ociImageConfig || config === mediaType.dockerImageConfig) return "container-image";
  const envelope = manifest.mediaType;
  return envelope === mediaType.ociIndex || envelope === mediaType.dockerManifestList
    ? "image-index"
    : "unknown";
}
