/** The networks that VMs of this host can be connected to. */
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { openBridgeNetwork, openUserNetwork } from "@cocoon/qemu";
import type { VmNetwork } from "@cocoon/vm";
import type { VkConfig } from "./config.ts";

type NetworkSettings = Pick<
  VkConfig,
  | "rootDirectory"
  | "userSubnet"
  | "bridge"
  | "bridgeSubnet"
  | "bridgeDns"
  | "bridgeDenied"
  | "bridgeConnectVms"
>;

/** The same places as the `cocoon` command uses, so that both see the same addresses. The first is the default. */
export async function openNetworks(
  config: NetworkSettings,
  options: Abortable & {
    /** QEMU may not listen below. */
    readonly firstFreePort?: number;
  },
): Promise<ReadonlyMap<string, VmNetwork>> {
  const directory = join(config.rootDirectory, "net");
  // Others may read it; what VK_LEASES_PATH names belongs to a DHCP server, and is never written.
  const leasesPath = join(directory, "leases.json");
  const networks = new Map<string, VmNetwork>();
  if (config.bridge) {
    const { bridge, bridgeSubnet, bridgeDns, bridgeDenied } = config;
    const settings = {
      directory: join(directory, "bridge"),
      bridge,
      leasesPath,
      connectVms: config.bridgeConnectVms === "true",
      ...(bridgeSubnet ? { subnet: bridgeSubnet } : {}),
      ...(bridgeDns ? { dns: bridgeDns } : {}),
      ...(bridgeDenied ? { denied: bridgeDenied } : {}),
    };
    networks.set("bridge", await openBridgeNetwork(settings, options));
  }
  const { userSubnet } = config;
  networks.set(
    "user",
    await openUserNetwork({
      directory: join(directory, "user"),
      ...(config.bridge ? {} : { leasesPath }),
      ...(userSubnet ? { subnet: userSubnet } : {}),
      ...(options.firstFreePort === undefined ? {} : { firstFreePort: options.firstFreePort }),
    }),
  );
  return networks;
}
