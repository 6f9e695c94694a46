/**
 * Names and addresses of the platform's own network. Pure.
 *
 *   machines ── node-1 ──┐
 *                        ├── router ── slirp4netns ── outside
 *   machines ── node-2 ──┘
 *
 * Each box is a network namespace; the host's own network is not touched. All addresses exist inside these namespaces only, so that
 * several platforms have the same ones.
 */
import { createHash } from "node:crypto";
import { join } from "node:path";

export const nodeNumbers = [1, 2] as const;
export type NodeNumber = (typeof nodeNumbers)[number];

/** Of all machines, and of the links between namespaces. Clear of the Services' range. */
export const clusterCidr = "10.244.0.0/16";
/** Where machines find the API server and the cluster's DNS: an address of the router. */
export const controlPlaneAddress = "10.244.0.254";
export const dnsServiceAddress = "10.0.0.10";
/** Between the router and slirp4netns; it answers DNS queries at the third address. */
export const outsideCidr = "10.244.255.0/24";
export const outsideDns = "10.244.255.3";
export const outsideDevice = "outside";

export interface NodeLink {
  readonly number: NodeNumber;
  readonly netns: string;
  /** Of its machines. */
  readonly cidr: string;
  readonly address: string;
  /** The router's end of the link. */
  readonly gateway: string;
  /** The device at the router's end. */
  readonly device: string;
}

export interface Topology {
  readonly router: string;
  readonly nodes: readonly NodeLink[];
}

/** `directory`: the platform's, which names its namespaces. */
export function describeTopology(directory: string): Topology {
  const id = createHash("sha256").update(directory).digest("hex").slice(0, 8);
  return {
    router: `cocoon-up-${id}-router`,
    nodes: nodeNumbers.map((number) => ({
      number,
      netns: `cocoon-up-${id}-node-${number}`,
      cidr: `10.244.${number}.0/24`,
      gateway: `10.244.0.${4 * number + 1}`,
      address: `10.244.0.${4 * number + 2}`,
      device: `node-${number}`,
    })),
  };
}

export function formatNetnsPath(name: string): string {
  return join("/run/netns", name);
}

export const cniPlugins = ["ptp", "host-local", "portmap", "bandwidth"] as const;

/** A routed link per machine: Services and NetworkPolicies then need no br_netfilter. */
export function buildConflist(node: NodeLink, dataDir: string): unknown {
  return {
    cniVersion: "0.4.0",
    name: "cocoon",
    plugins: [
      {
        type: "ptp",
        ipMasq: false,
        mtu: 1500,
        ipam: {
          type: "host-local",
          dataDir,
          ranges: [[{ subnet: node.cidr }]],
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
      { type: "portmap", capabilities: { portMappings: true } },
      { type: "bandwidth", capabilities: { bandwidth: true } },
    ],
  };
}

/**
 * From machines the router's own addresses are reached for DNS and the API server only, and neither slirp4netns itself nor
 * link-local addresses, where clouds have their metadata, are reached at all.
 */
export function buildRouterRules(apiserverPort: number): string {
  return `table ip cocoon_router
delete table ip cocoon_router
table ip cocoon_router {
  chain input {
    type filter hook input priority 0; policy accept;
    iifname != "node-*" accept
    ct state established,related accept
    ip protocol icmp accept
    ip daddr ${controlPlaneAddress} tcp dport { 53, ${apiserverPort} } accept
    ip daddr ${controlPlaneAddress} udp dport 53 accept
    reject
  }
  chain forward {
    type filter hook forward priority 0; policy accept;
    ip daddr { 169.254.0.0/16, ${outsideCidr} } reject
  }
  chain postrouting {
    type nat hook postrouting priority 100; policy accept;
    oifname "${outsideDevice}" masquerade
  }
}
`;
}
