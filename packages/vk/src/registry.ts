/** The registry that the settings name. */
import type { Logger } from "@cocoon/core";
import {
  dockerCredentials,
  firstCredential,
  googleCredentials,
  openConfiguredRegistry,
  type CredentialSource,
} from "@cocoon/oci";
import type { QemuOptions } from "@cocoon/qemu";
import type { VkConfig } from "./config.ts";
import type { VkOptions } from "./start.ts";

type RegistrySide = Omit<NonNullable<VkOptions["registry"]>, "directory">;

/** For images of registries that are not the snapshots' own. */
export function readCredentials(
  config: Pick<VkConfig, "dockerConfig" | "googleApplicationCredentials" | "gceMetadataHost">,
): CredentialSource {
  const google = { file: config.googleApplicationCredentials, metadataHost: config.gceMetadataHost };
  return firstCredential([googleCredentials(google), dockerCredentials({ configPath: config.dockerConfig })]);
}

const mebibyte = 1024 * 1024;

/** How the registry is reached, in this process and in those that load machines. */
export function readRegistryAccess(config: VkConfig): NonNullable<QemuOptions["lazy"]>["registry"] {
  const { googleApplicationCredentials: file, gceMetadataHost: metadataHost } = config;
  return {
    address: config.ociRegistry ?? config.epochUrl,
    ...(config.epochToken ? { token: config.epochToken } : {}),
    dockerConfig: config.dockerConfig,
    google: { file, metadataHost },
    ...(config.epochCaCert ? { caFile: config.epochCaCert } : {}),
  };
}

export async function openSnapshotRegistry(config: VkConfig, log: Logger): Promise<RegistrySide> {
  const access = readRegistryAccess(config);
  const format = config.snapshotFormat ?? (config.ociRegistry ? "v2" : "v1");
  log.info({ registry: access.address, format }, "snapshots go to this registry");
  const client = await openConfiguredRegistry(access);
  return {
    client,
    format,
    chunkStoreBytes: config.chunkStoreMib * mebibyte,
    transfers: config.snapshotTransferConcurrency,
    memoryBytes: config.snapshotMemoryBudgetMib * mebibyte,
    pullMemoryBytes: config.snapshotPullBudgetMib * mebibyte,
    ...(config.snapshotZstdLevel > 0 ? { level: config.snapshotZstdLevel } : {}),
    ...(config.snapshotChunkSizeMib > 0 ? { chunkBytes: config.snapshotChunkSizeMib * mebibyte } : {}),
  };
}
