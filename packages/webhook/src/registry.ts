/** The registry, as far as placement needs it: does this machine sleep there? */
import { hibernateTag, isRepository, releasedTag } from "@cocoon/contract";
import { messageOf, withDeadline, type Logger } from "@cocoon/core";
import { openConfiguredRegistry, retag, type Registry } from "@cocoon/oci";
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
  log.info({ registry: address }, "snapshots are looked for in this registry");
  const registry = await openConfiguredRegistry({
    address,
    token: settings.epochToken,
    dockerConfig: settings.dockerConfig,
    google: { file: settings.googleApplicationCredentials, metadataHost: settings.gceMetadataHost },
    caFile: settings.epochCaCert,
  });
  return {
    ...snapshotsIn(registry, log),
    [Symbol.asyncDispose]: () => registry[Symbol.asyncDispose](),
  };
}

const askTimeoutMs = 2_000;

export function snapshotsIn(registry: Registry, log: Logger): Snapshots {
  return {
    async isAsleep(vmName, { signal }) {
      if (!isRepository(vmName)) return false;
      try {
        const deadline = withDeadline(signal, askTimeoutMs);
        const head = await registry.repository(vmName).headManifest(hibernateTag, { signal: deadline });
        return head !== undefined;
      } catch (error) {
        log.warn({ vm: vmName, error: messageOf(error) }, "registry could not be asked for a snapshot");
        return false;
      }
    },
    async isAbsent({ repository, tag }, { signal }) {
      try {
        const deadline = withDeadline(signal, askTimeoutMs);
        return (await registry.repository(repository).headManifest(tag, { signal: deadline })) === undefined;
      } catch (error) {
        log.debug({ image: `${repository}:${tag}`, error: messageOf(error) }, "registry could not be asked");
        return false;
      }
    },
    async setAside(vmName, { signal }) {
      if (!isRepository(vmName)) return;
      const repository = registry.repository(vmName);
      const head = await repository.headManifest(hibernateTag, { signal });
      if (!head) return;
      await retag({ repository, from: head.digest, to: releasedTag(new Date()), signal });
      await repository.deleteManifest(hibernateTag, { signal });
    },
  };
}
