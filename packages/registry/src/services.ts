/** What request handlers work with. */
import type { Logger } from "@cocoon/core";
import type { Authenticator } from "./auth/authenticator.ts";
import type { Sessions } from "./auth/sessions.ts";
import type { SsoOptions } from "./auth/sso.ts";
import type { TokenStore } from "./auth/token-store.ts";
import type { BlobStore } from "./content/blob-store.ts";
import type { ManifestStore } from "./content/manifest-store.ts";
import type { GarbageCollector } from "./gc/collector.ts";
import type { Limiters } from "./http/limiters.ts";
import type { RegistryMetrics } from "./metrics.ts";
import type { Overview } from "./overview/overview.ts";
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
  readonly collector: GarbageCollector;
  readonly auth: Authenticator;
  readonly tokens: TokenStore;
  readonly overview: Overview;
  readonly sessions: Sessions;
  /** Login of people, if configured. */
  readonly sso: SsoOptions | undefined;
  readonly limiters: Limiters;
  readonly metrics: RegistryMetrics;
  /** Of tokens whose maker says nothing about it; 0 for ever. */
  readonly tokenLifetimeMs: number;
  readonly corsOrigins: readonly string[];
  /** Aborts when the registry stops. */
  readonly stopping: AbortSignal;
  /** Where clients reach us, when that cannot be seen from a request. */
  readonly publicUrl: string | undefined;
  /** Behave as epoch where the two differ harmlessly. */
  readonly epochCompat: boolean;
}
