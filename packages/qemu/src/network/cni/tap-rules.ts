/**
 * What joins the guest's tap and the interface that CNI made, as text for nft: frames go from one to the other at the
 * first hook of each device, so neither a bridge nor the namespace's own IP stack sees them. From the guest only frames
 * with its own addresses pass, and none to this host's loopback or to the metadata services of clouds.
 */
export interface TapRules {
  readonly ifName: string;
  readonly tap: string;
  readonly mac: string;
  readonly ip: string;
}

/**
 * Loopback (a host with route_localnet would answer), and where clouds hand out credentials of the host: link-local
 * (AWS, GCP, Azure, OpenStack and others), AWS ECS, Alibaba, Volcengine, Oracle.
 */
const forbiddenDestinations = [
  "127.0.0.0/8",
  "169.254.169.254",
  "169.254.170.2",
  "100.100.100.200",
  "100.96.0.96",
  "192.0.0.192",
];

export function writeTapRules(nics: readonly TapRules[]): string {
  return [
    "table netdev cocoon",
    "delete table netdev cocoon",
    "table netdev cocoon {",
    ...nics.flatMap(formatChains),
    "}",
    "",
  ].join("\n");
}

/** A guest that checks whether its address is free asks without one. */
function formatChains({ ifName, tap, mac, ip }: TapRules): string[] {
  return [
    `  chain from_${ifName} {`,
    `    type filter hook ingress device "${tap}" priority 0; policy drop;`,
    `    ether saddr != ${mac} drop`,
    `    ip daddr { ${forbiddenDestinations.join(", ")} } drop`,
    `    ip saddr ${ip} fwd to "${ifName}"`,
    `    arp saddr ip { ${ip}, 0.0.0.0 } fwd to "${ifName}"`,
    "  }",
    `  chain to_${ifName} {`,
    `    type filter hook ingress device "${ifName}" priority 0; policy accept;`,
    `    fwd to "${tap}"`,
    "  }",
  ];
}
