/** Settings of the credentials of every program that talks to a registry: one table, so that they stay the same. */
import { optionType } from "@cocoon/core";
import type { ConfiguredRegistry } from "./open-configured.ts";

export const credentialOptions = {
  epochToken: {
    schema: optionType.optionalText(),
    description: "token for it",
    env: ["EPOCH_TOKEN"],
    secret: true,
  },
  epochCaCert: {
    schema: optionType.optionalText(),
    description: "PEM file of the authority to trust",
    env: ["EPOCH_CA_CERT"],
  },
  googleApplicationCredentials: {
    schema: optionType.optionalText(),
    description:
      "Google credential file for Google's registries; default gcloud's own, else the metadata server",
    env: ["GOOGLE_APPLICATION_CREDENTIALS"],
  },
  gceMetadataHost: {
    schema: optionType.optionalText(),
    description: "Google's metadata server, host[:port]; default 169.254.169.254",
    env: ["GCE_METADATA_HOST"],
  },
} as const;

interface CredentialSettings {
  readonly epochToken: string | undefined;
  readonly epochCaCert: string | undefined;
  readonly googleApplicationCredentials: string | undefined;
  readonly gceMetadataHost: string | undefined;
  /** Each program has its own default. */
  readonly dockerConfig: string;
}

export function readCredentialSettings(config: CredentialSettings): Omit<ConfiguredRegistry, "address"> {
  return {
    token: config.epochToken,
    dockerConfig: config.dockerConfig,
    google: { file: config.googleApplicationCredentials, metadataHost: config.gceMetadataHost },
    caFile: config.epochCaCert,
  };
}
