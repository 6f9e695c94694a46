/** What commands of a host do with the CNI network without opening it. */
import { constants } from "node:fs/promises";
import { join } from "node:path";
import { isAccessible, type Abortable } from "@cocoon/core";
import { AttachmentStore } from "./attachments.ts";
import { defaultBinDirectories } from "./cni-settings.ts";
import { removeNamespace } from "./machine-namespace.ts";

/** Those of the plugins that are not installed. */
export async function findMissingPlugins(names: readonly string[]): Promise<string[]> {
  const missing: string[] = [];
  for (const name of names) {
    const paths = defaultBinDirectories.map((directory) => join(directory, name));
    const found = await Promise.all(paths.map((path) => isAccessible(path, constants.X_OK)));
    if (!found.includes(true)) missing.push(name);
  }
  return missing;
}

/**
 * Removes the namespaces of machines that are stopped; as after a reboot, each is attached anew when it starts. Their records
 * stay, for the plugins are still to be told: that happens at the next start, too.
 */
export async function removeMachineNamespaces(directory: string, options: Abortable): Promise<void> {
  for (const { netns } of await new AttachmentStore(directory).list()) await removeNamespace(netns, options);
}
