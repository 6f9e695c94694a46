/** The registry that the settings name. */
import type { Logger } from "@cocoon/core";
import {
  dockerCredentials,
  firstCredential,
  googleCredentials,
  openConfiguredRegistry,
  type CredentialSource,
} from "@cocoon/oci";
import type { VkConfig } from "./config.ts";
import type { VkOptions } from "./start.ts";

type RegistrySide = Omit<NonNullable<VkOptions["registry"]>, "stagingDirectory">;

/** For images of registries that are not the snapshots' own. */
export function credentialsOf(
  config: Pick<VkConfig, "dockerConfig" | "googleApplicationCredentials" | "gceMetadataHost">,
): CredentialSource {
  const google = { file: config.googleApplicationCredentials, metadataHost: config.gceMetadataHost };
  return firstCredential([googleCredentials(google), dockerCredentials({ configPath: config.dockerConfig })]);
}

const mebibyte = 1024 * 1024;

export async function openRegistryOf(config: VkConfig, log: Logger): Promise<RegistrySide> {
  const address = config.ociRegistry ?? config.epochUrl;
  const format = config.snapshotFormat ?? (config.ociRegistry ? "v2" : "v1");
  log.info({ registry: address, format }, "snapshots go to this registry");
  const client = await openConfiguredRegistry({
    address,
    token: config.epochToken,
    dockerConfig: config.dockerConfig,
    google: { file: config.googleApplicationCredentials, metadataHost: config.gceMetadataHost },
    caFile: config.epochCaCert,
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
