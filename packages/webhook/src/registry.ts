/** The snapshots of machines in the registry, as far as placement and the reaper need them. */
import { isRepository } from "@cocoon/contract";
import { getErrorMessage, withDeadline, type Logger } from "@cocoon/core";
import { MachineSnapshots } from "@cocoon/machine";
import { openConfiguredRegistry, readCredentialSettings, type Registry } from "@cocoon/oci";
import type { WebhookConfig } from "./config.ts";
import type { Snapshots } from "./snapshots.ts";

type RegistrySettings = Pick<
  WebhookConfig,
  "epochToken" | "epochCaCert" | "dockerConfig" | "googleApplicationCredentials" | "gceMetadataHost"
>;

export async function openRegistrySnapshots(
  address: string,
  settings: RegistrySettings,
  log: Logger,
): Promise<Snapshots & AsyncDisposable> {
  log.info({ registry: address }, "registry for snapshots");
  const registry = await openConfiguredRegistry({ address, ...readCredentialSettings(settings) });
  return {
    ...snapshotsIn(registry, log),
    [Symbol.asyncDispose]: () => registry[Symbol.asyncDispose](),
  };
}

const lookupTimeoutMs = 2_000;

export function snapshotsIn(registry: Registry, log: Logger): Snapshots {
  const snapshots = new MachineSnapshots({ registry });
  return {
    async isHibernated(vmName, { signal }) {
      try {
        const limited = { signal: withDeadline(signal, lookupTimeoutMs) };
        return (await snapshots.findHibernatedDigest(vmName, limited)) !== undefined;
      } catch (error) {
        log.warn({ vm: vmName, error: getErrorMessage(error) }, "registry unavailable for a snapshot lookup");
        return false;
      }
    },
    async isAbsent({ repository, tag }, { signal }) {
      try {
        const limited = { signal: withDeadline(signal, lookupTimeoutMs) };
        return (await snapshots.findDigest(repository, tag, limited)) === undefined;
      } catch (error) {
        log.debug({ image: `${repository}:${tag}`, error: getErrorMessage(error) }, "registry unavailable");
        return false;
      }
    },
    async release({ vmName, namespace }, options) {
      if (isRepository(vmName)) await snapshots.release(vmName, { namespace, at: new Date() }, options);
    },
  };
}
