/** Settings of what runs the VMs and how they are connected; and variables of other systems that mean nothing here. */
import * as z from "zod";

const runtimeChoices = ["auto", "qemu", "cocoon"] as const;
const restoreModes = ["copy", "ondemand", "mmap"] as const;

const commaList = z
  .string()
  .optional()
  .transform((text) => text?.split(",").filter((part) => part !== ""));

export const runtimeOptions = {
  runtime: {
    schema: z.enum(runtimeChoices).default("auto"),
    description:
      "what runs the VMs: the built-in qemu, an external cocoon command, or auto: the command where there is one that is not ours",
    env: ["VK_RUNTIME"],
  },
  cocoonBin: {
    schema: z.string().min(1).default("/usr/local/bin/cocoon"),
    description: "the external cocoon command",
    env: ["VK_COCOON_BIN"],
  },
  cocoonSudo: {
    schema: z.enum(["auto", "never"]).default("auto"),
    description: "auto: the command is run by sudo -n where we are not root",
    env: ["VK_COCOON_SUDO"],
  },
  leasesPath: {
    schema: z.string().optional(),
    description:
      "file with the addresses of VMs (JSON or dnsmasq's); default what the runtime says, then net/leases.json below the root directory, then dnsmasq's file",
    env: ["VK_LEASES_PATH"],
  },
  restoreMode: {
    schema: z.enum(restoreModes).default("mmap"),
    description: "how the cocoon command brings back memory; Windows guests are always copied",
    env: ["VK_RESTORE_MODE"],
  },
  macosBin: {
    schema: z.string().min(1).default("/usr/local/bin/cocoon-macos"),
    description: "runs macOS guests, where it exists",
    env: ["VK_COCOON_MACOS_BIN"],
  },
  cgroupParent: {
    schema: z.string().default("cocoon.slice"),
    description: "control group of the VMs",
    env: ["COCOON_CGROUP_PARENT"],
  },
  userSubnet: {
    schema: z.string().optional(),
    description: "loopback addresses for VMs; two runtimes on one host need two",
    env: ["VK_USER_SUBNET"],
  },
  bridge: {
    schema: z.string().optional(),
    description:
      "bridge that VMs are connected to, made when it is missing (needs root); VMs then have addresses of their own. Default: none, ports are forwarded",
    env: ["VK_BRIDGE"],
  },
  bridgeSubnet: {
    schema: z.string().optional(),
    description: "its addresses; default 10.88.0.0/24",
    env: ["VK_BRIDGE_SUBNET"],
  },
  bridgeDns: {
    schema: commaList,
    description: "name servers for VMs on the bridge, separated by commas",
    env: ["VK_BRIDGE_DNS"],
  },
  bridgeDenied: {
    schema: commaList,
    description: "networks (CIDR) that VMs on the bridge may not reach, separated by commas",
    env: ["VK_BRIDGE_DENIED"],
  },
  bridgeConnectVms: {
    schema: z.enum(["true", "false"]).default("false"),
    description: "VMs on the bridge may talk to each other",
    env: ["VK_BRIDGE_CONNECT_VMS"],
  },
  path: {
    schema: z.string().default("/usr/sbin:/usr/bin:/sbin:/bin"),
    description: "where QEMU is looked for",
    env: ["PATH"],
  },
} as const;

const unused = (variable: string) =>
  ({
    schema: z.string().optional(),
    description: `accepted so that existing files keep working; not used here`,
    env: [variable],
  }) as const;

/** Of systems that also read this environment; whoever sets one is told that it does nothing. */
export const unusedOptions = {
  netControlSocket: unused("VK_COCOON_NET_CONTROL_SOCKET"),
  macosVncPassword: { ...unused("COCOON_MACOS_VNC_PASSWORD"), secret: true },
  stagingDir: unused("VK_STAGING_DIR"),
  peerAddr: unused("VK_PEER_ADDR"),
  snapshotDir: unused("VK_COCOON_SNAPSHOT_DIR"),
} as const;
