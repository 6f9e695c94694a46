/** Settings of what runs the VMs and how they are connected; and variables of other systems that mean nothing here. */
import * as z from "zod";

export interface VariableOption<S extends z.ZodType> {
  readonly schema: S;
  readonly description: string;
  readonly env: readonly [string];
}

/** An option with its documented variable; its flag is named after the field. */
export function option<S extends z.ZodType>(
  variable: string,
  description: string,
  schema: S,
): VariableOption<S> {
  return { schema, description, env: [variable] };
}

const runtimeChoices = ["auto", "qemu", "cocoon"] as const;
const restoreModes = ["copy", "ondemand", "mmap"] as const;

const networkChoices = ["auto", "user", "bridge", "cni"] as const;

const colonList = z
  .string()
  .optional()
  .transform((text) => text?.split(":").filter((part) => part !== ""));

const commaList = z
  .string()
  .optional()
  .transform((text) => text?.split(",").filter((part) => part !== ""));

export const runtimeOptions = {
  runtime: option(
    "VK_RUNTIME",
    "what runs the VMs: the built-in qemu, an external cocoon command, or auto: the command where there is one that is not ours",
    z.enum(runtimeChoices).default("auto"),
  ),
  cocoonBin: option(
    "VK_COCOON_BIN",
    "the external cocoon command",
    z.string().min(1).default("/usr/local/bin/cocoon"),
  ),
  cocoonSudo: option(
    "VK_COCOON_SUDO",
    "auto: the command is run by sudo -n where we are not root",
    z.enum(["auto", "never"]).default("auto"),
  ),
  macosBin: option(
    "VK_COCOON_MACOS_BIN",
    "the program that runs macOS guests; pods of system macos are refused where it does not exist",
    z.string().min(1).default("/usr/local/bin/cocoon-macos"),
  ),
  macosHome: option(
    "COCOON_MACOS_HOME",
    "state directory of that program; default its own, /var/lib/cocoon-macos",
    z.string().min(1).optional(),
  ),
  leasesPath: option(
    "VK_LEASES_PATH",
    "file with the addresses of VMs (JSON or dnsmasq's); default what the runtime says, then net/leases.json below the root directory, then dnsmasq's file",
    z.string().optional(),
  ),
  restoreMode: option(
    "VK_RESTORE_MODE",
    "how the cocoon command brings back memory; Windows guests are always copied",
    z.enum(restoreModes).default("mmap"),
  ),
  cgroupParent: option(
    "COCOON_CGROUP_PARENT",
    "control group of the VMs",
    z.string().default("cocoon.slice"),
  ),
  vmUsers: option(
    "VK_VM_USERS",
    "auto: as root each VM runs as a user of its own, where these can reach the root directory; none: all run as vk-cocoon does",
    z.enum(["auto", "none"]).default("auto"),
  ),
  imageFileRoots: option(
    "VK_IMAGE_FILE_ROOTS",
    "directories of this host below which files and OCI layouts may be images, separated by commas; default none",
    commaList,
  ),
  imagePrivateHosts: option(
    "VK_IMAGE_PRIVATE_HOSTS",
    "hosts with private, loopback or link-local addresses that images may be fetched from, by URL or by a reference that names its registry, separated by commas; default none. The registry of the settings is always allowed",
    commaList,
  ),
  allowHostLoopback: option(
    "COCOON_ALLOW_HOST_LOOPBACK",
    "guests on the user network may connect to addresses of this host, loopback included",
    z.enum(["true", "false"]).default("false"),
  ),
  network: option(
    "VK_NETWORK",
    "default network of VMs: cni (the node's CNI plugins, as any pod), bridge (VK_BRIDGE), user (ports forwarded from loopback addresses), or auto: bridge where VK_BRIDGE is set, else user",
    z.enum(networkChoices).default("auto"),
  ),
  cniConfDir: option(
    "VK_CNI_CONF_DIR",
    "directory of CNI configuration lists; pods choose another list than the default by its name",
    z.string().min(1).default("/etc/cni/net.d"),
  ),
  cniBinDir: option(
    "VK_CNI_BIN_DIR",
    "directories of CNI plugins, separated by colons; default /opt/cni/bin:/usr/lib/cni",
    colonList,
  ),
  cniList: option(
    "VK_CNI_LIST",
    "name of the default CNI configuration list; default the first by file name",
    z.string().min(1).optional(),
  ),
  cniTimeoutMs: option(
    "VK_CNI_TIMEOUT_MS",
    "how long one call of one CNI plugin may take before it is ended",
    z.coerce.number().int().min(1000).max(600_000).default(30_000),
  ),
  cniGc: option(
    "VK_CNI_GC",
    "exclusive: at start CNI plugins (1.1) remove what belongs to no machine of this node; only where no other runtime uses the same configuration. never: they are not asked",
    z.enum(["never", "exclusive"]).default("never"),
  ),
  networkPolicy: option(
    "VK_NETWORK_POLICY",
    "enforce: NetworkPolicies hold for machines of this node by its own firewall (nftables); never: they are left to the cluster's network plugin; auto: enforce where machines are on a bridge, or on a CNI list of plugins that know no policies",
    z.enum(["auto", "enforce", "never"]).default("auto"),
  ),
  clusterDns: option(
    "VK_CLUSTER_DNS",
    "addresses of the cluster's DNS service, separated by commas, for guests on the CNI network; default this host's name servers",
    commaList,
  ),
  clusterDomain: option(
    "VK_CLUSTER_DOMAIN",
    "domain of the cluster's Services",
    z.string().min(1).default("cluster.local"),
  ),
  userSubnet: option(
    "VK_USER_SUBNET",
    "loopback addresses for VMs; two runtimes on one host need two",
    z.string().optional(),
  ),
  bridge: option(
    "VK_BRIDGE",
    "bridge that VMs are connected to, made when it is missing (needs root); VMs then have addresses of their own. Default: none, ports are forwarded",
    z.string().optional(),
  ),
  bridgeSubnet: option("VK_BRIDGE_SUBNET", "its addresses; default 10.88.0.0/24", z.string().optional()),
  bridgeDns: option("VK_BRIDGE_DNS", "name servers for VMs on the bridge, separated by commas", commaList),
  bridgeDenied: option(
    "VK_BRIDGE_DENIED",
    "networks (CIDR) that VMs on the bridge may not reach, separated by commas",
    commaList,
  ),
  bridgeConnectVms: option(
    "VK_BRIDGE_CONNECT_VMS",
    "VMs on the bridge may talk to each other",
    z.enum(["true", "false"]).default("false"),
  ),
  path: option("PATH", "where QEMU is looked for", z.string().default("/usr/sbin:/usr/bin:/sbin:/bin")),
} as const;

const unused = (variable: string) =>
  option(variable, "accepted so that existing files keep working; not used here", z.string().optional());

/** Of systems that also read this environment; a setting of one is logged as ignored. */
export const unusedOptions = {
  netControlSocket: unused("VK_COCOON_NET_CONTROL_SOCKET"),
  macosVncPassword: { ...unused("COCOON_MACOS_VNC_PASSWORD"), secret: true },
  stagingDir: unused("VK_STAGING_DIR"),
  peerAddr: unused("VK_PEER_ADDR"),
  snapshotDir: unused("VK_COCOON_SNAPSHOT_DIR"),
} as const;
