/**
 * The registry that keeps the snapshots: that of this machine's platform, or the one that the variables of the operator
 * and of vk-cocoon name (OCI_REGISTRY, EPOCH_URL; EPOCH_TOKEN or a docker configuration file; EPOCH_CA_CERT). Tokens come
 * from the environment or from files only, never from the command line.
 */
import { homedir } from "node:os";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import { openConfiguredRegistry, type Registry } from "@cocoon/oci";
import type { ClusterTarget } from "../cluster/session.ts";
import type { Environment } from "../home.ts";

export interface RegistryOptions {
  readonly registry?: string;
}

interface RegistrySettings {
  readonly address: string;
  readonly token?: string;
  readonly caFile?: string;
}

export function settingsFromEnvironment(
  { registry }: RegistryOptions,
  env: Environment,
): RegistrySettings | undefined {
  const address = registry ?? (env["OCI_REGISTRY"] || env["EPOCH_URL"]);
  if (!address) return undefined;
  const { EPOCH_TOKEN: token, EPOCH_CA_CERT: caFile } = env;
  return { address, ...(token ? { token } : {}), ...(caFile ? { caFile } : {}) };
}

/** What `up` gave to the parts of the platform. */
async function settingsFromPlatform(home: string): Promise<RegistrySettings | undefined> {
  const { knownPlatform } = await import("../platform.ts");
  const platform = await knownPlatform(home, process.env);
  const operator = platform?.components.find(({ name }) => name === "operator");
  return settingsFromEnvironment({}, { ...operator?.env, ...operator?.secrets });
}

export async function tryOpenRegistry(
  options: RegistryOptions,
  { home }: ClusterTarget,
): Promise<Registry | undefined> {
  const own =
    options.registry === undefined && home !== undefined ? await settingsFromPlatform(home) : undefined;
  const settings = own ?? settingsFromEnvironment(options, process.env);
  if (!settings) return undefined;
  return openConfiguredRegistry({
    ...settings,
    dockerConfig: join(process.env["DOCKER_CONFIG"] ?? join(homedir(), ".docker"), "config.json"),
    retry: { attempts: 2 },
    answerTimeoutMs: 15_000,
  });
}

export async function openRegistry(options: RegistryOptions, target: ClusterTarget): Promise<Registry> {
  const registry = await tryOpenRegistry(options, target);
  if (registry) return registry;
  throw new Fault(
    "badRequest",
    "which registry keeps the snapshots? Set OCI_REGISTRY or EPOCH_URL as the operator has it (and EPOCH_TOKEN, EPOCH_CA_CERT), or give --registry",
  );
}
