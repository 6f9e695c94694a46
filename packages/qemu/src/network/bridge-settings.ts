/** Settings of the bridge network, checked: they end up in commands and in a firewall. */
import { Fault } from "@cocoon/core";
import type { HostNetwork } from "./host-commands.ts";
import { contains, formatIpv4, formatSubnet, parseIpv4, parseSubnet, type Ipv4Range } from "./ipv4.ts";

export interface BridgeNetworkOptions extends HostNetwork {
  /** The address book and dnsmasq's files. */
  readonly directory: string;
  /** At most 15 characters. */
  readonly bridge?: string;
  readonly subnet?: string;
  /** Default: the first address of the subnet. */
  readonly gateway?: string;
  readonly dns?: readonly string[];
  /** Destinations (CIDR) that no VM may reach. */
  readonly denied?: readonly string[];
  /** VMs on the bridge may talk to each other. Default false. */
  readonly connectVms?: boolean;
  /** Where to publish addresses as JSON, for agents that read such a file. */
  readonly leasesPath?: string;
}

export interface BridgeSettings extends HostNetwork {
  readonly directory: string;
  readonly bridge: string;
  readonly range: Ipv4Range;
  readonly subnet: string;
  readonly mask: string;
  readonly gateway: string;
  /** Where handing out begins: behind the gateway, when that is the first address. */
  readonly firstOffset: number;
  readonly dns: readonly string[];
  readonly denied: readonly string[];
  readonly connectVms: boolean;
  readonly leasesPath?: string;
}

const defaultBridge = "cni0";
const defaultSubnet = "10.88.0.0/24";
const defaultDns = ["8.8.8.8", "1.1.1.1"];

export function readBridgeSettings(options: BridgeNetworkOptions): BridgeSettings {
  const bridge = options.bridge ?? defaultBridge;
  if (!/^[A-Za-z0-9][A-Za-z0-9_.-]{0,14}$/.test(bridge)) {
    throw new Fault(
      "invalid",
      `"${bridge}" is no name for a bridge: at most 15 letters, digits, "-", "_", "."`,
    );
  }
  const range = parseSubnet(options.subnet ?? defaultSubnet);
  const gateway = readGateway(options.gateway, range);
  return {
    directory: options.directory,
    bridge,
    range,
    subnet: formatSubnet(range),
    mask: formatIpv4(2 ** 32 - 2 ** (32 - range.prefix)),
    gateway,
    firstOffset: 1,
    dns: (options.dns ?? defaultDns).map((each) => formatIpv4(parseIpv4(each))),
    denied: (options.denied ?? []).map(readDenied),
    connectVms: options.connectVms ?? false,
    ...(options.leasesPath === undefined ? {} : { leasesPath: options.leasesPath }),
    ...(options.netns === undefined ? {} : { netns: options.netns }),
  };
}

function readGateway(text: string | undefined, range: Ipv4Range): string {
  const gateway = text === undefined ? range.first : parseIpv4(text);
  if (!contains(range, gateway) || gateway < range.first || gateway > range.last) {
    throw new Fault(
      "invalid",
      `the gateway ${formatIpv4(gateway)} is no host address of ${formatSubnet(range)}`,
    );
  }
  return formatIpv4(gateway);
}

function readDenied(text: string): string {
  const [address = "", prefix = "32"] = text.split("/");
  if (!/^\d{1,2}$/.test(prefix) || Number(prefix) > 32) {
    throw new Fault("invalid", `"${text}" is no IPv4 network that could be denied`);
  }
  return `${formatIpv4(parseIpv4(address))}/${prefix}`;
}
