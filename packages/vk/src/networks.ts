/** The networks that VMs of this host can be connected to. */
import { join } from "node:path";
import { Fault, getErrorMessage, silentLogger, type Abortable, type Logger } from "@cocoon/core";
import {
  isPlainList,
  listCniNetworks,
  openBridgeNetwork,
  openCniNetwork,
  openUserNetwork,
  type PluginCall,
} from "@cocoon/qemu";
import type { VmNetwork } from "@cocoon/vm";
import type { VkConfig } from "./config.ts";

type NetworkSettings = Pick<
  VkConfig,
  | "rootDirectory"
  | "network"
  | "cniConfDir"
  | "cniBinDir"
  | "cniList"
  | "cniTimeoutMs"
  | "cniGc"
  | "userSubnet"
  | "bridge"
  | "bridgeSubnet"
  | "bridgeDns"
  | "bridgeDenied"
  | "bridgeConnectVms"
>;

interface OpenOptions extends Abortable {
  /** QEMU may not listen below. */
  readonly firstFreePort?: number;
  readonly log?: Logger;
  /** Told how each call of a CNI plugin ended. */
  readonly onCall?: (call: PluginCall) => void;
}

/** The same places as the `cocoon` command uses, so that both see the same addresses. The first is the default. */
export async function openNetworks(
  config: NetworkSettings,
  options: OpenOptions,
): Promise<ReadonlyMap<string, VmNetwork>> {
  const directory = join(config.rootDirectory, "net");
  // Others may read it; what VK_LEASES_PATH names belongs to a DHCP server, and is never written.
  const leasesPath = join(directory, "leases.json");
  const networks = new Map<string, VmNetwork>();
  const cni = await openCni(config, { ...options, directory: join(directory, "cni"), leasesPath });
  for (const [name, network] of cni) networks.set(name, network);
  if (config.bridge) {
    const bridge = await openBridge(config, { ...options, directory: join(directory, "bridge"), leasesPath });
    networks.set("bridge", bridge);
  }
  const { userSubnet } = config;
  const user = await openUserNetwork({
    directory: join(directory, "user"),
    ...(networks.size > 0 ? {} : { leasesPath }),
    ...(userSubnet ? { subnet: userSubnet } : {}),
    ...(options.firstFreePort === undefined ? {} : { firstFreePort: options.firstFreePort }),
  });
  networks.set("user", user);
  return putFirst(networks, config);
}

interface Places extends OpenOptions {
  readonly directory: string;
  readonly leasesPath: string;
}

function openBridge(
  config: NetworkSettings,
  { directory, leasesPath, ...options }: Places,
): Promise<VmNetwork> {
  const { bridge = "", bridgeSubnet, bridgeDns, bridgeDenied } = config;
  const settings = {
    directory,
    bridge,
    leasesPath,
    connectVms: config.bridgeConnectVms === "true",
    ...(bridgeSubnet ? { subnet: bridgeSubnet } : {}),
    ...(bridgeDns ? { dns: bridgeDns } : {}),
    ...(bridgeDenied ? { denied: bridgeDenied } : {}),
  };
  return openBridgeNetwork(settings, options);
}

/** By the name `cni` and by the names of all lists. */
async function openCni(config: NetworkSettings, places: Places): Promise<ReadonlyMap<string, VmNetwork>> {
  if (config.network !== "cni") return new Map();
  const { cniConfDir, cniBinDir, cniList, cniTimeoutMs, cniGc } = config;
  const { directory, leasesPath, onCall, log = silentLogger } = places;
  const open = (list: string | undefined) =>
    openCniNetwork({
      directory,
      leasesPath,
      confDirectory: cniConfDir,
      ...(cniBinDir ? { binDirectories: cniBinDir } : {}),
      ...(list === undefined ? {} : { list }),
      timeoutMs: cniTimeoutMs,
      collectGarbage: cniGc === "exclusive",
      ...(onCall ? { onCall } : {}),
      log,
    });
  const networks = new Map<string, VmNetwork>([["cni", await open(cniList)]]);
  for (const name of await listCniNetworks(cniConfDir)) {
    if (["cni", "user", "bridge"].includes(name)) continue;
    const opened = await open(name).catch((error: unknown) => {
      log.warn({ network: name, error: getErrorMessage(error) }, "this CNI network cannot be chosen");
    });
    if (opened) networks.set(name, opened);
  }
  return networks;
}

/** VMs that name no network are on the first. */
function putFirst(
  networks: ReadonlyMap<string, VmNetwork>,
  { network }: NetworkSettings,
): ReadonlyMap<string, VmNetwork> {
  if (network === "auto") return networks;
  const chosen = networks.get(network);
  if (!chosen) throw new Fault("invalid", "VK_NETWORK is bridge, but VK_BRIDGE names none");
  return new Map([[network, chosen], ...networks]);
}

/** Whether NetworkPolicies hold for this node's machines: by the cluster's engine, whose plugin attaches them, or by this node. */
export async function honoursPolicies(
  config: NetworkSettings & Pick<VkConfig, "networkPolicy">,
  networks: ReadonlyMap<string, VmNetwork>,
): Promise<boolean> {
  const [first] = networks.values();
  const hasEngine = first?.kind === "cni" && !(await isPlainList(config.cniConfDir, config.cniList));
  return hasEngine || (await enforcesPolicies(config, networks));
}

/** Whether NetworkPolicies are this node's to enforce: the cluster's engine does it where its plugin attaches the machines. */
export async function enforcesPolicies(
  config: NetworkSettings & Pick<VkConfig, "networkPolicy">,
  networks: ReadonlyMap<string, VmNetwork>,
): Promise<boolean> {
  if (config.networkPolicy !== "auto") return config.networkPolicy === "enforce";
  const [first] = networks.values();
  if (first?.kind === "bridge") return true;
  return first?.kind === "cni" && (await isPlainList(config.cniConfDir, config.cniList));
}
