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
import { ManifestReader } from "./content/manifest-reader.ts";
import { ManifestStore } from "./content/manifest-store.ts";
import { Quota, type QuotaRule } from "./content/quota.ts";
import { SweepGate } from "./content/sweep-gate.ts";
import { ensureTagIndex } from "./content/tag-index.ts";
import { GarbageCollector } from "./gc/collector.ts";
import type { RetentionRule } from "./gc/retention.ts";
import { BodyMemory } from "./http/body-memory.ts";
import { TrustedProxies } from "./http/client-address.ts";
import { Limiters } from "./http/limiters.ts";
import { DeletionGuard } from "./replicas/deletion-guard.ts";
import { MaintenanceLease } from "./replicas/maintenance-lease.ts";
import { DamagedBlobs } from "./scrub/damage.ts";
import { Scrubber } from "./scrub/scrubber.ts";
import { RegistryMetrics } from "./metrics.ts";
import type { RepositoryName, Tag } from "./names.ts";
import { Overview } from "./overview/overview.ts";
import { layout } from "./storage/layout.ts";
import { StorageHealth } from "./storage/storage-health.ts";
import type { Storage } from "./storage/storage.ts";
import { openUploadSpool, type UploadSpool } from "./uploads/upload-spool.ts";

export interface Limits {
  readonly maxBlobBytes: number;
  readonly maxManifestBytes: number;
}

export interface ServiceOptions extends Partial<typeof serviceDefaults> {
  /** Where uploads grow; default beside the storage, or the system's temporary directory. */
  readonly uploadDirectory?: string;
  readonly limits?: Partial<Limits>;
  /** Pushes and pulls everything, administers nothing. */
  readonly staticToken?: string;
  readonly anonymousPull?: boolean;
  /** Epoch's open ways: anonymous pull, tokens echoed by /v2/token, any web page may ask. */
  readonly epochCompat?: boolean;
  readonly publicUrl?: string;
  readonly sso?: SsoOptions;
  /** Signs the sessions of people; default one that is kept with the content. */
  readonly cookieSecret?: Uint8Array;
  readonly corsOrigins?: readonly string[];
  /** Addresses and networks of proxies whose X-Forwarded-For is believed. */
  readonly trustedProxies?: readonly string[];
  readonly retention?: readonly RetentionRule[];
  readonly quotas?: readonly QuotaRule[];
}

const hourMs = 3_600_000;

export const defaultLimits: Limits = { maxBlobBytes: 2 ** 40, maxManifestBytes: 4 * 2 ** 20 };

export const serviceDefaults = {
  uploadIdleMs: hourMs,
  /** How long a request that writes to an upload may be silent before another one can replace it. */
  uploadTakeoverMs: 30_000,
  maxUploadsPerCaller: 1_000,
  tokenLifetimeMs: 365 * 24 * hourMs,
  requestsPerSecond: 0,
  loginFailuresPerMinute: 30,
  /** How long a connection of a known caller may be without progress. Others have a minute. */
  stallTimeoutMs: hourMs,
  leaseMs: 24 * hourMs,
  untaggedMs: 7 * 24 * hourMs,
  /** How long garbage collection waits between marking and deleting on storage that replicas share. */
  gcSettleMs: 30_000,
  maintenanceLeaseMs: 60_000,
};

type Settings = ServiceOptions & typeof serviceDefaults;

interface Surroundings {
  readonly log: Logger;
  readonly stopping: AbortSignal;
}

export type Services = Awaited<ReturnType<typeof createServices>>;

export function openServices(storage: Storage, settings: ServiceOptions & Surroundings): Promise<Services> {
  return createServices(storage, settings);
}

async function createServices(storage: Storage, settings: ServiceOptions & Surroundings) {
  const options = { ...serviceDefaults, ...settings };
  const { log, stopping, epochCompat = false, leaseMs } = options;
  const secret = await ensureSecret(storage);
  const memory = new BodyMemory();
  const uploads = await openUploads(storage, secret, { ...options, memory });
  const content = await openContent(storage, options);
  const { gate, damaged, blobs, manifests, overview, reader, quota } = content;
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
  const lease = new MaintenanceLease({ storage, log, durationMs: options.maintenanceLeaseMs });
  const scrubber = new Scrubber({ storage, manifests, damaged, gate, directory: uploads.directory, log });
  return {
    log,
    stopping,
    limits: { ...defaultLimits, ...options.limits },
    storage,
    storageHealth: new StorageHealth(storage),
    blobs,
    manifests,
    uploads,
    overview,
    quota,
    auth,
    tokens,
    lease,
    scrubber,
    collector: new GarbageCollector({ ...content, storage, uploads, lease, rules, leaseMs, untaggedMs, log }),
    sessions: new Sessions(options.cookieSecret ?? deriveKey(secret, "session cookies")),
    sso: options.sso,
    memory,
    trustedProxies: new TrustedProxies(options.trustedProxies),
    stallTimeoutMs: options.stallTimeoutMs,
    limiters: new Limiters({
      requestsPerSecond: options.requestsPerSecond,
      failuresPerMinute: options.loginFailuresPerMinute,
    }),
    metrics: createMetrics({ uploads, scrubber, damaged }),
    tokenLifetimeMs: options.tokenLifetimeMs,
    corsOrigins: options.corsOrigins ?? (epochCompat ? ["*"] : []),
    publicUrl: options.publicUrl,
    epochCompat,
    [Symbol.asyncDispose]: async () => {
      await tokens[Symbol.asyncDispose]();
      await reader[Symbol.asyncDispose]();
      await uploads[Symbol.asyncDispose]();
    },
  };
}

async function openContent(storage: Storage, options: Settings) {
  const gate = new SweepGate();
  const quota = new Quota(storage, options.quotas ?? []);
  const repositories = new KeyedLock<RepositoryName>();
  const guard = new DeletionGuard(storage, options.gcSettleMs);
  const damaged = new DamagedBlobs(storage);
  const blobs = new BlobStore({ storage, gate, quota, guard, damaged, leaseMs: options.leaseMs });
  const onChange = (name: RepositoryName, tags: readonly Tag[]) => overview.invalidate(name, tags);
  const reader = new ManifestReader();
  const manifests = new ManifestStore({ storage, blobs, gate, repositories, reader, guard, onChange });
  const overview = new Overview(manifests, storage.isShared ? 300_000 : Infinity);
  await ensureTagIndex(storage, manifests);
  return { gate, quota, repositories, guard, damaged, blobs, reader, manifests, overview, onChange };
}

function openUploads(
  storage: Storage,
  secret: Uint8Array,
  options: Settings & { readonly memory: BodyMemory },
): Promise<UploadSpool> {
  const fallback = storage.localUploadDirectory ?? join(tmpdir(), `epoch-uploads-${process.pid}`);
  return openUploadSpool({
    directory: options.uploadDirectory ?? fallback,
    secret: deriveKey(secret, "upload sessions"),
    idleMs: options.uploadIdleMs,
    takeoverMs: options.uploadTakeoverMs,
    maxSessionsPerCaller: options.maxUploadsPerCaller,
    memory: options.memory,
  });
}

interface Measured {
  readonly uploads: Pick<UploadSpool, "openSessions" | "heldBytes">;
  readonly scrubber: Pick<Scrubber, "totals">;
  readonly damaged: Pick<DamagedBlobs, "size">;
}

export function createMetrics({ uploads, scrubber, damaged }: Measured): RegistryMetrics {
  const metrics = new RegistryMetrics();
  const gauges: readonly [name: string, help: string, read: () => number][] = [
    ["epoch_uploads_open", "Upload sessions that are open.", () => uploads.openSessions],
    ["epoch_upload_memory_bytes", "Bytes of request bodies held in memory.", () => uploads.heldBytes],
    ["epoch_damaged_blobs", "Blobs known to be damaged and not pushed again yet.", () => damaged.size],
    [
      "epoch_scrubbed_blobs",
      "Blobs compared with their digest since the start.",
      () => scrubber.totals.blobs,
    ],
    [
      "epoch_scrub_repaired_blobs",
      "Damaged blobs repaired from their own bytes since the start.",
      () => scrubber.totals.repaired,
    ],
  ];
  for (const [name, help, read] of gauges) metrics.watch(name, help, read);
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
  if ((await storage.putIf(layout.secret, secret, undefined)) !== undefined) return secret;
  return ensureSecret(storage); // another replica was first
}

/** One secret, many uses, none of which can stand in for another. */
function deriveKey(secret: Uint8Array, use: string): Uint8Array {
  return createHmac("sha256", secret).update(use).digest();
}
