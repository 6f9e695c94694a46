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
export { openRegistry, Registry, type RegistryOptions } from "./registry/registry.ts";
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
