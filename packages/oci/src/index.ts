/**
 * oci: the client side of a registry. References, credentials, blobs, manifests; pushing and pulling snapshots of
 * machines; the local chunk store that all machines of a node share. It does not serve anything (that is
 * `registry`) and does not know what runs a machine (that is `vm`).
 */
export { readRegistryAddress, type RegistryAddress } from "./registry/address.ts";
export {
  dockerConfigPath,
  dockerCredentials,
  fixedCredential,
  type Credential,
  type CredentialSource,
} from "./registry/credentials.ts";
export { firstCredential, googleCredentials, type GoogleCredentialOptions } from "./registry/google.ts";
export { openConfiguredRegistry, type ConfiguredRegistry } from "./registry/open-configured.ts";
export { credentialOptions } from "./registry/settings.ts";
export { openRegistry, Registry, type RegistryOptions } from "./registry/registry.ts";
export { type ConnectionGuard } from "./registry/transport.ts";
export { Repository, type ManifestHead, type StoredManifest } from "./registry/repository.ts";
export { type BlobContent } from "./registry/blob-upload.ts";
export { type BlobPart } from "./registry/blob-download.ts";
export { assertDigest, computeDigest, readDigest, tryReadDigest } from "./digest.ts";
export { ChunkStore, type ChunkStoreOptions, type StoreStats } from "./chunks/chunk-store.ts";
export { type BaseReference } from "./packed/load-base.ts";
export { openSnapshotClient, SnapshotClient, type VerifyOptions } from "./snapshot/snapshot-client.ts";
export {
  snapshotFormats,
  type PushReport,
  type PushSnapshotOptions,
  type SnapshotFormat,
  type SnapshotSource,
} from "./snapshot/push-snapshot.ts";
export { type PullReport, type PullSnapshotOptions } from "./snapshot/pull-snapshot.ts";
export { openLazySnapshot, readLazyFile, type LazySnapshot } from "./lazy/open-lazy.ts";
export { LazyFiles, type LazyCounts } from "./lazy/lazy-files.ts";
export {
  maxWorkingSetEntries,
  tryReadWorkingSet,
  writeWorkingSet,
  type WorkingSetEntry,
} from "./lazy/working-set.ts";
export { type OnProgress, type Progress } from "./snapshot/progress.ts";
export {
  readArtifactKind,
  readSnapshot,
  resolveManifest,
  type FoundSnapshot,
} from "./snapshot/read-snapshot.ts";
export { listSourceFiles, type SourceFile } from "./snapshot/source.ts";
export { type Extent } from "./snapshot/sparse-map.ts";
export { anchorSnapshot, deleteByDigest, putEmptyAnchor, retag } from "./snapshot/stored-snapshots.ts";
export { openCloudImage, type CloudImageReport, type PushCloudImageOptions } from "./snapshot/cloud-image.ts";
export { decompress, startsWith } from "./archive/decompress.ts";
export { readTar, type TarEntry, type TarOptions } from "./archive/read-tar.ts";
export { exportArchive, type ExportArchiveOptions } from "./archive/export-archive.ts";
export { importArchive } from "./archive/import-archive.ts";
export { snapshotArchive } from "./archive/snapshot-archive.ts";
