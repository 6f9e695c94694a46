/**
 * oci: the client side of a registry. References, credentials, blobs, manifests; pushing and pulling snapshots of
 * machines; the local chunk store that all machines of a node share. It does not serve anything (that is
 * `registry`) and does not know what runs a machine (that is `vm`).
 */
export {
  dockerConfigPath,
  dockerCredentials,
  fixedCredential,
  type CredentialSource,
} from "./registry/credentials.ts";
export { firstCredential, googleCredentials } from "./registry/google.ts";
export { openConfiguredRegistry } from "./registry/open-configured.ts";
export { credentialOptions, readCredentialSettings } from "./registry/settings.ts";
export { openRegistry, Registry } from "./registry/registry.ts";
export { type ConnectionGuard } from "./registry/transport.ts";
export { Repository } from "./registry/repository.ts";
export { toBlobContent } from "./registry/blob-content.ts";
export { MemoryBudget } from "./work/memory-budget.ts";
export { type BlobPart } from "./registry/blob-download.ts";
export { assertDigest, computeDigest } from "./digest.ts";
export { ChunkStore, type StoreStats } from "./chunks/chunk-store.ts";
export { type BaseReference } from "./packed/load-base.ts";
export { openSnapshotClient, SnapshotClient } from "./snapshot/snapshot-client.ts";
export {
  snapshotFormats,
  type PushReport,
  type PushSnapshotOptions,
  type SnapshotFormat,
  type SnapshotSource,
} from "./snapshot/push-snapshot.ts";
export { type PullReport } from "./snapshot/pull-snapshot.ts";
export { openLazySnapshot, readLazyFile, type LazySnapshot } from "./lazy/open-lazy.ts";
export { LazyFiles } from "./lazy/lazy-files.ts";
export {
  maxWorkingSetEntries,
  tryReadWorkingSet,
  writeWorkingSet,
  type WorkingSetEntry,
} from "./lazy/working-set.ts";
export { type OnProgress, type Progress } from "./snapshot/progress.ts";
export { readArtifactKind, readSnapshot, resolveManifest } from "./snapshot/read-snapshot.ts";
export { listSourceFiles } from "./snapshot/source.ts";
export { anchorSnapshot, deleteByDigest, putEmptyAnchor, retag } from "./snapshot/stored-snapshots.ts";
export { openCloudImage } from "./snapshot/cloud-image.ts";
export { decompress, startsWith } from "./archive/decompress.ts";
export { readTar, type TarEntry, type TarOptions } from "./archive/read-tar.ts";
export { exportArchive } from "./archive/export-archive.ts";
export { importArchive } from "./archive/import-archive.ts";
export { snapshotArchive } from "./archive/snapshot-archive.ts";
