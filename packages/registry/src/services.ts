/** What request handlers work with. */
import type { Logger } from "@cocoon/core";
import type { Authenticator } from "./auth/authenticator.ts";
import type { TokenStore } from "./auth/token-store.ts";
import type { BlobStore } from "./content/blob-store.ts";
import type { ManifestStore } from "./content/manifest-store.ts";
import type { Storage } from "./storage/storage.ts";
import type { UploadSpool } from "./uploads/upload-spool.ts";

export interface Limits {
  readonly maxBlobBytes: number;
  readonly maxManifestBytes: number;
}

export interface Services {
  readonly log: Logger;
  readonly limits: Limits;
  readonly storage: Storage;
  readonly blobs: BlobStore;
  readonly manifests: ManifestStore;
  readonly uploads: UploadSpool;
  readonly auth: Authenticator;
  readonly tokens: TokenStore;
  /** Where clients reach us, when that cannot be seen from a request. */
  readonly publicUrl: string | undefined;
  /** Behave as epoch where the two differ harmlessly. */
  readonly epochCompat: boolean;
}
