/** Puts the parts together that answer requests. */
import { createHmac, randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Fault, type Logger } from "@cocoon/core";
import { Authenticator } from "./auth/authenticator.ts";
import { Sessions } from "./auth/sessions.ts";
import type { SsoOptions } from "./auth/sso.ts";
import { TokenStore } from "./auth/token-store.ts";
import { BlobStore } from "./content/blob-store.ts";
import { KeyedLock } from "./content/keyed-lock.ts";
import { ManifestStore } from "./content/manifest-store.ts";
import { Quota, type QuotaRule } from "./content/quota.ts";
import { SweepGate } from "./content/sweep-gate.ts";
import { GarbageCollector } from "./gc/collector.ts";
import type { RetentionRule } from "./gc/retention.ts";
import { Limiters } from "./http/limiters.ts";
import { RegistryMetrics } from "./metrics.ts";
import type { RepositoryName } from "./names.ts";
import { Overview } from "./overview/overview.ts";
import type { Limits, Services } from "./services.ts";
import { layout } from "./storage/layout.ts";
import type { Storage } from "./storage/storage.ts";
import { openUploadSpool, type UploadSpool } from "./uploads/upload-spool.ts";

export interface ServiceOptions {
  /** Where uploads grow; default beside the storage, or the system's temporary directory. */
  readonly uploadDirectory?: string;
  readonly uploadIdleMs?: number;
  readonly limits?: Partial<Limits>;
  /** Pushes and pulls everything, administers nothing. */
  readonly staticToken?: string;
  readonly anonymousPull?: boolean;
  /** Epoch's open ways: anonymous pull, tokens echoed by /v2/token, any web page may ask. */
  readonly epochCompat?: boolean;
  readonly publicUrl?: string;
  readonly tokenLifetimeMs?: number;
  readonly sso?: SsoOptions;
  /** Signs the sessions of people; default one that is kept with the content. */
  readonly cookieSecret?: Uint8Array;
  readonly corsOrigins?: readonly string[];
  readonly requestsPerSecond?: number;
  readonly loginFailuresPerMinute?: number;
  /** How long a blob that no manifest names is kept. */
  readonly leaseMs?: number;
  /** How long a manifest that no tag reaches is kept. */
  readonly untaggedMs?: number;
  readonly retention?: readonly RetentionRule[];
  readonly quotas?: readonly QuotaRule[];
}

const hourMs = 3_600_000;

export const serviceDefaults = {
  uploadIdleMs: 24 * hourMs,
  maxBlobBytes: 2 ** 40,
  maxManifestBytes: 50 * 2 ** 20,
  tokenLifetimeMs: 365 * 24 * hourMs,
  requestsPerSecond: 0,
  loginFailuresPerMinute: 30,
  leaseMs: 24 * hourMs,
  untaggedMs: 7 * 24 * hourMs,
} as const;

interface Surroundings {
  readonly log: Logger;
  readonly stopping: AbortSignal;
}

export async function openServices(
  storage: Storage,
  given: ServiceOptions & Surroundings,
): Promise<Services & AsyncDisposable> {
  const options = { ...serviceDefaults, ...given };
  const { log, stopping, epochCompat = false, leaseMs } = options;
  const secret = await ensureSecret(storage);
  const uploads = await openUploads(storage, secret, options);
  const gate = new SweepGate();
  const quota = new Quota(storage, options.quotas ?? []);
  const repositories = new KeyedLock<RepositoryName>();
  const blobs = new BlobStore({ storage, gate, quota, leaseMs });
  const onChange = (name: RepositoryName) => overview.invalidate(name);
  const manifests = new ManifestStore({ storage, blobs, gate, repositories, onChange });
  const overview = new Overview(manifests);
  const tokens = await TokenStore.open(storage);
  const auth = new Authenticator({
    tokens,
    secret,
    staticToken: options.staticToken,
    anonymousPull: (options.anonymousPull ?? false) || epochCompat,
    echoTokens: epochCompat,
    log,
  });
  const { untaggedMs, retention: rules = [] } = options;
  const parts = { storage, manifests, uploads, gate, quota, repositories };
  return {
    log,
    stopping,
    limits: limitsOf(options.limits),
    storage,
    blobs,
    manifests,
    uploads,
    overview,
    auth,
    tokens,
    collector: new GarbageCollector({ ...parts, rules, leaseMs, untaggedMs, onChange, log }),
    sessions: new Sessions(options.cookieSecret ?? derivedKey(secret, "session cookies")),
    sso: options.sso,
    limiters: new Limiters({
      requestsPerSecond: options.requestsPerSecond,
      failuresPerMinute: options.loginFailuresPerMinute,
    }),
    metrics: metricsOf(uploads),
    tokenLifetimeMs: options.tokenLifetimeMs,
    corsOrigins: options.corsOrigins ?? (epochCompat ? ["*"] : []),
    publicUrl: options.publicUrl,
    epochCompat,
    [Symbol.asyncDispose]: async () => {
      await tokens[Symbol.asyncDispose]();
      await uploads[Symbol.asyncDispose]();
    },
  };
}

function limitsOf(given: Partial<Limits> = {}): Limits {
  const { maxBlobBytes, maxManifestBytes } = serviceDefaults;
  return { maxBlobBytes, maxManifestBytes, ...given };
}

function openUploads(
  storage: Storage,
  secret: Uint8Array,
  options: ServiceOptions & { readonly uploadIdleMs: number },
): Promise<UploadSpool> {
  const fallback = storage.localUploadDirectory ?? join(tmpdir(), `epoch-uploads-${process.pid}`);
  return openUploadSpool({
    directory: options.uploadDirectory ?? fallback,
    secret: derivedKey(secret, "upload sessions"),
    idleMs: options.uploadIdleMs,
  });
}

export function metricsOf(uploads: Pick<UploadSpool, "openSessions">): RegistryMetrics {
  const metrics = new RegistryMetrics();
  metrics.watch(
    "epoch_uploads_open",
    "Upload sessions that were begun and not yet finished.",
    () => uploads.openSessions,
  );
  return metrics;
}

/** Signs what we hand out; made once, and kept with the content so that it is still good after a restart. */
async function ensureSecret(storage: Storage): Promise<Uint8Array> {
  const known = await storage.get(layout.secret);
  if (known?.length === 32) return known;
  if (known)
    throw new Fault(
      "internal",
      `${storage.description}: the server's secret is damaged (${known.length} bytes)`,
    );
  const secret = randomBytes(32);
  await storage.put(layout.secret, secret);
  return secret;
}

/** One secret, many uses, none of which can stand in for another. */
function derivedKey(secret: Uint8Array, use: string): Uint8Array {
  return createHmac("sha256", secret).update(use).digest();
}
