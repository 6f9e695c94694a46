/** The registry that the settings name. */
import { readFile } from "node:fs/promises";
import type { Logger } from "@cocoon/core";
import { dockerCredentials, fixedCredential, openRegistry } from "@cocoon/oci";
import type { VkConfig } from "./config.ts";
import type { VkOptions } from "./start.ts";

type RegistrySide = Omit<NonNullable<VkOptions["registry"]>, "stagingDirectory">;

const mebibyte = 1024 * 1024;

export async function openRegistryOf(config: VkConfig, log: Logger): Promise<RegistrySide> {
  const address = config.ociRegistry ?? config.epochUrl;
  const format = config.snapshotFormat ?? (config.ociRegistry ? "v2" : "v1");
  log.info({ registry: address, format }, "snapshots go to this registry");
  const credentials = config.epochToken
    ? fixedCredential({ kind: "bearer", token: config.epochToken })
    : dockerCredentials({ configPath: config.dockerConfig });
  const client = openRegistry({
    address,
    credentials,
    ...(config.epochCaCert ? { ca: await readFile(config.epochCaCert, "utf8") } : {}),
    // The documented default of EPOCH_URL is plain HTTP inside the cluster.
    ...(address.startsWith("http://") ? { plainHttp: true } : {}),
  });
  return {
    client,
    format,
    transfers: config.snapshotTransferConcurrency,
    memoryBytes: config.snapshotMemoryBudgetMib * mebibyte,
    pullMemoryBytes: config.snapshotPullBudgetMib * mebibyte,
    ...(config.snapshotZstdLevel > 0 ? { level: config.snapshotZstdLevel } : {}),
    ...(config.snapshotChunkSizeMib > 0 ? { chunkBytes: config.snapshotChunkSizeMib * mebibyte } : {}),
  };
}
