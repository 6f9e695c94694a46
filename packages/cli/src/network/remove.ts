/** Removes the platform's network from this machine, as far as a platform of that directory ever had one. */
import { join } from "node:path";
import { pathExists, type Abortable } from "@cocoon/core";
import { removeMachineNamespaces } from "@cocoon/qemu";
import { nodeDirectory } from "../parts/node-part.ts";
import { partsDirectory } from "../parts/parts.ts";
import { listNames, removeNamespaces } from "./namespaces.ts";
import { describeTopology, formatNetnsPath, nodeNumbers } from "./topology.ts";

/** Called once nothing runs in it. Found by its names: also what a killed `up` left. */
export async function removeClusterNetwork(directory: string, options: Abortable): Promise<void> {
  const parts = { directory: partsDirectory(directory) };
  for (const number of nodeNumbers)
    await removeMachineNamespaces(join(nodeDirectory(parts, number), "net", "cni"), options);
  const topology = describeTopology(directory);
  const found = await Promise.all(listNames(topology).map((name) => pathExists(formatNetnsPath(name))));
  if (found.includes(true)) await removeNamespaces(topology, options);
}
