/**
 * oci: the client side of a registry. References, credentials, blobs, manifests; pushing and pulling snapshots of
 * machines; the local chunk store that all machines of a node share. It does not serve anything (that is
 * `registry`) and does not know what runs a machine (that is `vm`).
 */
export { readRegistryAddress, type AddressRules, type RegistryAddress } from "./registry/address.ts";
export {
  dockerConfigPath,
  dockerCredentials,
  fixedCredential,
  type Credential,
  type CredentialSource,
  type DockerCredentialOptions,
} from "./registry/credentials.ts";
export { firstCredential, googleCredentials, type GoogleCredentialOptions } from "./registry/google.ts";
export { openConfiguredRegistry, type ConfiguredRegistry } from "./registry/open-configured.ts";
export { credentialOptions } from "./registry/settings.ts";
export { openRegistry, Registry, type ApiCall, type RegistryOptions } from "./registry/registry.ts";
export {
  Repository,
  type ManifestHead,
  type PutBlobOptions,
  type PutOutcome,
  type StoredManifest,
} from "./registry/repository.ts";
export { type BlobContent } from "./registry/blob-upload.ts";
export { type BlobPart } from "./registry/blob-download.ts";
export { type Referrer, type ReferrerQuery } from "./registry/listing.ts";
export { assertDigest, digestOf, readDigest, tryReadDigest, type DigestParts } from "./digest.ts";
export { ChunkStore, type ChunkStoreOptions, type StoreStats } from "./chunks/chunk-store.ts";
export { type BaseReference } from "./packed/load-base.ts";
export {
  openSnapshotClient,
  SnapshotClient,
  type SnapshotClientOptions,
  type VerifyOptions,
} from "./snapshot/snapshot-client.ts";
export {
  snapshotFormats,
  type PushReport,
  type PushSnapshotOptions,
  type SnapshotFormat,
  type SnapshotSource,
} from "./snapshot/push-snapshot.ts";
export { type PullReport, type PullSnapshotOptions } from "./snapshot/pull-snapshot.ts";
export { type OnProgress, type Progress } from "./snapshot/progress.ts";
export { kindOf, readSnapshot, resolveManifest, type FoundSnapshot } from "./snapshot/read-snapshot.ts";
export { filesOf, type SourceFile } from "./snapshot/source.ts";
export { type Extent } from "./snapshot/sparse-map.ts";
export {
  anchorSnapshot,
  deleteByDigest,
  retag,
  type AnchorOptions,
  type RetagOptions,
} from "./snapshot/stored-snapshots.ts";
export {
  openCloudImage,
  type CloudImageReport,
  type OpenCloudImageOptions,
  type OpenedCloudImage,
  type PushCloudImageOptions,
} from "./snapshot/cloud-image.ts";
export { exportArchive, type ExportArchiveOptions } from "./archive/export-archive.ts";
export { importArchive, type ImportArchiveOptions } from "./archive/import-archive.ts";
export { snapshotArchive, type ReadBlob, type SnapshotArchiveOptions } from "./archive/snapshot-archive.ts";
