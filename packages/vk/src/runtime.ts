/** What runs the VMs of this host. */
import { join } from "node:path";
import type { Abortable, Logger } from "@cocoon/core";
import { openImageLibrary, openQemuRuntime, openUserNetwork, type VmRuntime } from "@cocoon/vm";
import type { VkConfig } from "./config.ts";

export async function openRuntime(
  config: VkConfig,
  { log, signal }: Abortable & { readonly log: Logger },
): Promise<VmRuntime> {
  const { rootDirectory } = config;
  const network = await openUserNetwork({
    directory: join(rootDirectory, "net"),
    ...(config.userSubnet ? { subnet: config.userSubnet } : {}),
  });
  return openQemuRuntime({
    rootDirectory,
    images: openImageLibrary({ directory: config.imageDirectory ?? join(rootDirectory, "images") }),
    networks: new Map([["user", network]]),
    path: config.path,
    cgroupParent: config.cgroupParent,
    log,
    signal,
  });
}
