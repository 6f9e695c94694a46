/** From the configuration as people wrote it to the options of a registry; all mistakes name the flag and the fix. */
import { Fault, readListenAddress, type ListenAddress } from "@cocoon/core";
import { tryParseQuantity } from "@cocoon/core/quantity";
import { maxManifestLimitBytes, minUploadIdleMs, type ServeConfig } from "../config.ts";
import type { QuotaRule } from "../content/quota.ts";
import { readRetentionRules } from "../gc/retention.ts";
import type { RegistryOptions } from "../server.ts";
import { readStorage } from "./storage.ts";
import { readSso } from "./sso.ts";

export function readRegistryOptions(config: ServeConfig): RegistryOptions {
  const address = readListenAddress(config.addr, "--addr");
  const tls = readTls(config, address);
  const sso = readSso(config);
  return {
    ...address,
    ...given("tls", tls),
    ...given("sso", sso),
    ...given("cookieSecret", readCookieSecret(config.ssoCookieSecret)),
    ...given("publicUrl", config.publicUrl),
    ...given("staticToken", config.registryToken),
    ...given("uploadDirectory", config.uploadDir),
    storage: readStorage(config),
    anonymousPull: config.anonymousPull,
    epochCompat: config.epochCompat,
    tokenLifetimeMs: config.tokenTtl,
    ...(config.corsOrigins.length > 0 ? { corsOrigins: config.corsOrigins } : {}),
    limits: { maxBlobBytes: config.maxBlobSize, maxManifestBytes: readManifestLimit(config.maxManifestSize) },
    maxConnections: config.maxConnections,
    maxConnectionsPerAddress: config.maxConnectionsPerAddress,
    maxUploadsPerCaller: config.maxUploadsPerCaller,
    stallTimeoutMs: config.stallTimeout,
    trustedProxies: config.trustedProxies,
    scrubIntervalMs: config.scrubInterval,
    scrubBytesPerSecond: config.scrubRate,
    requestsPerSecond: config.rateLimit,
    loginFailuresPerMinute: config.loginFailures,
    quotas: readQuotas(config.quota),
    retention: readRetentionRules(config.retention),
    gcIntervalMs: config.gcInterval,
    leaseMs: config.lease,
    untaggedMs: config.untagged,
    uploadIdleMs: readUploadIdle(config.uploadIdle),
  };
}

function given<K extends string, T>(key: K, value: T | undefined): { [P in K]?: T } {
  return (value === undefined ? {} : { [key]: value }) as { [P in K]?: T };
}

function readTls(config: ServeConfig, { host }: ListenAddress): RegistryOptions["tls"] {
  const { tlsCertFile: certFile, tlsKeyFile: keyFile } = config;
  if (certFile !== undefined && keyFile !== undefined) return { certFile, keyFile };
  if (certFile !== undefined || keyFile !== undefined)
    throw new Fault("invalid", "--tls-cert-file and --tls-key-file belong together: give both or none");
  if (!config.plainHttp && !/^(127\.|::1$|localhost$)/.test(host))
    throw new Fault(
      "invalid",
      `--addr ${config.addr} can be reached by others: give --tls-cert-file and --tls-key-file, or --plain-http behind a proxy that does TLS`,
    );
  return undefined;
}

function readUploadIdle(ms: number): number {
  if (ms >= minUploadIdleMs) return ms;
  throw new Fault("invalid", "--upload-idle must be at least 1m");
}

function readManifestLimit(bytes: number): number {
  if (bytes > 0 && bytes <= maxManifestLimitBytes) return bytes;
  throw new Fault("invalid", "--max-manifest-size must be at most 50Mi: manifests are held in memory");
}

/** `vk-*=200Gi; *=50Gi` */
function readQuotas(text: string): QuotaRule[] {
  const rules = text.split(";").map((part) => part.trim());
  return rules
    .filter((part) => part !== "")
    .map((part) => {
      const [pattern = "", size = "", ...rest] = part.split("=").map((each) => each.trim());
      const quantity = tryParseQuantity(size);
      if (!/^[a-z0-9._*/-]+$/.test(pattern) || rest.length > 0 || !quantity || quantity.nanos <= 0n)
        throw new Fault(
          "invalid",
          `--quota: "${part}" is not of the form <repositories>=<size>, such as vk-*=200Gi`,
        );
      return { pattern, maxBytes: Number(quantity.nanos / 1_000_000_000n) };
    });
}

function readCookieSecret(text: string | undefined): Uint8Array | undefined {
  if (text === undefined) return undefined;
  if (!/^(?:[0-9a-fA-F]{2}){16,}$/.test(text))
    throw new Fault("invalid", "SSO_COOKIE_SECRET must be at least 32 hex digits");
  return Buffer.from(text, "hex");
}
