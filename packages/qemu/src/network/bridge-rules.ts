/**
 * The bridge's firewall as text for nft: one table for routed packets, one for frames on the bridge. Each load replaces
 * both in one step, and removing them is one command each; rules of others are never touched.
 */
export interface BridgeRules {
  readonly bridge: string;
  /** Network and prefix of the VMs. */
  readonly subnet: string;
  /** Destinations that no VM may reach. */
  readonly denied: readonly string[];
  readonly ports: readonly BridgePort[];
}

/** A VM's interface on the bridge: it may send from its own addresses only. */
export interface BridgePort {
  readonly tap: string;
  readonly mac: string;
  readonly ip: string;
  /** It may not reach anything but its DHCP server. */
  readonly isolated: boolean;
}

function tableName(bridge: string): string {
  return `cocoon_${bridge.replace(/[^A-Za-z0-9]/g, "_")}`;
}

export function writeRules(rules: BridgeRules): string {
  const table = tableName(rules.bridge);
  return [...routedTable(table, rules), ...frameTable(table, rules), ""].join("\n");
}

export function removeRules(bridge: string): string {
  const table = tableName(bridge);
  // Adding first makes the deletion succeed whether or not there was one.
  return ["ip", "bridge"]
    .flatMap((family) => [`add table ${family} ${table}`, `delete table ${family} ${table}`])
    .join("\n");
}

function routedTable(table: string, { bridge, subnet, denied, ports }: BridgeRules): string[] {
  const isolated = ports.filter((port) => port.isolated).map(({ ip }) => ip);
  const dropDenied =
    denied.length > 0 ? [`    iifname "${bridge}" ip daddr { ${denied.join(", ")} } drop`] : [];
  return [
    `add table ip ${table}`,
    `delete table ip ${table}`,
    `table ip ${table} {`,
    ...formatSet("isolated", "ipv4_addr", isolated),
    "  chain postrouting {",
    "    type nat hook postrouting priority srcnat; policy accept;",
    `    ip saddr ${subnet} oifname != "${bridge}" masquerade`,
    "  }",
    "  chain forward {",
    "    type filter hook forward priority filter; policy accept;",
    "    ct state established,related accept",
    ...dropDenied,
    `    iifname "${bridge}" ip saddr @isolated drop`,
    "  }",
    "  chain input {",
    "    type filter hook input priority filter; policy accept;",
    `    iifname "${bridge}" udp dport 67 accept`,
    "    ct state established,related accept",
    `    iifname "${bridge}" ip saddr @isolated drop`,
    "  }",
    "}",
  ];
}

/** Frames that enter by a VM's interface. DHCP requests come from no address at all. */
function frameTable(table: string, { ports }: BridgeRules): string[] {
  const taps = ports.map(({ tap }) => `"${tap}"`);
  const macs = ports.map(({ tap, mac }) => `"${tap}" . ${mac}`);
  const addresses = ports.flatMap(({ tap, ip }) => [`"${tap}" . ${ip}`, `"${tap}" . 0.0.0.0`]);
  return [
    `add table bridge ${table}`,
    `delete table bridge ${table}`,
    `table bridge ${table} {`,
    ...formatSet("taps", "ifname", taps),
    ...formatSet("macs", "ifname . ether_addr", macs),
    ...formatSet("addresses", "ifname . ipv4_addr", addresses),
    "  chain prerouting {",
    "    type filter hook prerouting priority filter; policy accept;",
    "    iifname != @taps accept",
    "    iifname . ether saddr != @macs drop",
    "    ether type arp iifname . arp saddr ip != @addresses drop",
    "    ether type ip iifname . ip saddr != @addresses drop",
    "    ether type { ip, arp } accept",
    "    drop",
    "  }",
    "}",
  ];
}

function formatSet(name: string, type: string, elements: readonly string[]): string[] {
  const content = elements.length > 0 ? [`    elements = { ${elements.join(", ")} }`] : [];
  return [`  set ${name} {`, `    type ${type}`, ...content, "  }"];
}
