/** A registry as the settings of our programs name it: an address, and a token or a docker configuration file. */
import { readFile } from "node:fs/promises";
import { dockerCredentials, fixedCredential } from "./credentials.ts";
import { firstCredential, googleCredentials, type GoogleCredentialOptions } from "./google.ts";
import { openRegistry, type Registry, type RegistryOptions } from "./registry.ts";

export interface ConfiguredRegistry extends Pick<RegistryOptions, "retry" | "answerTimeoutMs"> {
  readonly address: string;
  /** Sent as it is. Wins over the docker configuration. */
  readonly token?: string | undefined;
  /** Where credentials are when there is no token. */
  readonly dockerConfig: string;
  /** Asked before it, for Google's registries. */
  readonly google?: GoogleCredentialOptions | undefined;
  /** PEM file of an authority to trust besides the system's. */
  readonly caFile?: string | undefined;
}

export async function openConfiguredRegistry(settings: ConfiguredRegistry): Promise<Registry> {
  const { address, token, dockerConfig, google, caFile, ...rest } = settings;
  return openRegistry({
    ...rest,
    address,
    credentials: token
      ? fixedCredential({ kind: "bearer", token })
      : firstCredential([
          ...(google ? [googleCredentials(google)] : []),
          dockerCredentials({ configPath: dockerConfig }),
        ]),
    ...(caFile ? { ca: await readFile(caFile, "utf8") } : {}),
    // Who writes http:// means it: the documented default inside a cluster is plain.
    ...(address.startsWith("http://") ? { plainHttp: true } : {}),
  });
}
