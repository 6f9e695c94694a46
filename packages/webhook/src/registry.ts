/** The registry, as far as placement needs it: does this machine sleep there? */
import { readFile } from "node:fs/promises";
import { hibernateTag, isRepository, releasedTag } from "@cocoon/contract";
import { messageOf, withDeadline, type Abortable, type Logger } from "@cocoon/core";
import { dockerCredentials, fixedCredential, openRegistry, retag, type Registry } from "@cocoon/oci";
import type { WebhookConfig } from "./config.ts";

/** Undefined when the settings name none: then nothing is ever proven. */
export async function openRegistryOf(config: WebhookConfig, log: Logger): Promise<Registry | undefined> {
  const address = config.ociRegistry ?? config.epochUrl;
  if (address === undefined || address === "") {
    log.info("no registry is set: a machine whose node cannot take it waits for that node");
    return undefined;
  }
  log.info({ registry: address }, "snapshots are looked for in this registry");
  const credentials = config.epochToken
    ? fixedCredential({ kind: "bearer", token: config.epochToken })
    : dockerCredentials({ configPath: config.dockerConfig });
  return openRegistry({
    address,
    credentials,
    ...(config.epochCaCert ? { ca: await readFile(config.epochCaCert, "utf8") } : {}),
    ...(address.startsWith("http://") ? { plainHttp: true } : {}),
  });
}

const askTimeoutMs = 2_000;

/** Whether the machine's snapshot is there for sure. A registry that does not answer proves nothing. */
export async function isAsleepIn(
  registry: Registry | undefined,
  vmName: string,
  { signal, log }: Abortable & { readonly log: Logger },
): Promise<boolean> {
  if (!registry || !isRepository(vmName)) return false;
  try {
    const head = await registry
      .repository(vmName)
      .headManifest(hibernateTag, { signal: withDeadline(signal, askTimeoutMs) });
    return head !== undefined;
  } catch (error) {
    log.warn({ vm: vmName, error: messageOf(error) }, "registry could not be asked for a snapshot");
    return false;
  }
}

/**
 * Gives the snapshot of a slot that is released another tag, from which it can be restored: a later machine of that
 * name starts fresh. Throws when that is not certain; then the slot must not be released.
 */
export async function setAside(
  registry: Registry | undefined,
  vmName: string,
  { signal }: Abortable,
): Promise<void> {
  if (!registry || !isRepository(vmName)) return;
  const repository = registry.repository(vmName);
  const head = await repository.headManifest(hibernateTag, { signal });
  if (!head) return;
  await retag({ repository, from: head.digest, to: releasedTag(new Date()), signal });
  await repository.deleteManifest(hibernateTag, { signal });
}
