/**
 * NetworkPolicies as rules for nft, for the machines of one node. Pure: everything that was seen goes in, one text comes out
 * that replaces all rules at once. Table `inet` sees packets that the host routes, and with br_netfilter frames that stay on a
 * bridge; without br_netfilter the same chains stand in a table for frames.
 */
import { matchesLabels, parseRequirements, type LabelSelector } from "@cocoon/core/label-selector";
import type { NetworkPolicy } from "@cocoon/kube";

export type PolicySpec = NonNullable<NetworkPolicy["spec"]>;
type IngressRule = NonNullable<PolicySpec["ingress"]>[number];
type Peer = NonNullable<IngressRule["from"]>[number];
type PolicyPort = NonNullable<IngressRule["ports"]>[number];

export interface PolicyPod {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly ip: string;
  readonly ports: readonly {
    readonly name?: string;
    readonly containerPort: number;
    readonly protocol?: string;
  }[];
}

interface Policy {
  readonly namespace: string;
  readonly name: string;
  readonly spec: PolicySpec;
}

export interface ObservedPolicies {
  readonly policies: readonly Policy[];
  /** All pods with an address. */
  readonly pods: readonly PolicyPod[];
  /** Labels of namespaces by name. */
  readonly namespaces: ReadonlyMap<string, Readonly<Record<string, string>>>;
  /** Whether the pod is a machine of this node. */
  readonly isLocal: (pod: PolicyPod) => boolean;
  /** Whether frames between ports of one bridge pass table `inet`. */
  readonly filtersBridges: boolean;
}

const table = "cocoon_policy";
const families = ["inet", "bridge"] as const;

type Direction = "ingress" | "egress";

export function compilePolicies(observed: ObservedPolicies): string {
  const chains = observed.pods
    .filter((pod) => observed.isLocal(pod))
    .flatMap((pod) =>
      (["ingress", "egress"] as const).flatMap((direction) => compilePod(observed, pod, direction)),
    );
  return families
    .flatMap((family) => [
      `table ${family} ${table}`,
      `delete table ${family} ${table}`,
      ...(chains.length > 0 && !(family === "bridge" && observed.filtersBridges)
        ? formatTable(family, chains)
        : []),
    ])
    .concat("")
    .join("\n");
}

interface Chain {
  readonly direction: Direction;
  readonly ip: string;
  readonly name: string;
  readonly rules: readonly string[];
}

function formatTable(family: string, chains: readonly Chain[]): string[] {
  const dispatch = (direction: Direction, field: string) => {
    const verdicts = chains
      .filter((chain) => chain.direction === direction)
      .map(({ ip, name }) => `${ip} : jump ${name}`);
    return verdicts.length > 0 ? [`    ${field} vmap { ${verdicts.join(", ")} }`] : [];
  };
  return [
    `table ${family} ${table} {`,
    ...chains.flatMap(({ name, rules }) => [
      `  chain ${name} {`,
      ...rules.map((rule) => `    ${rule}`),
      "    drop",
      "  }",
    ]),
    "  chain forward {",
    "    type filter hook forward priority -5; policy accept;",
    "    ct state established,related accept",
    ...dispatch("egress", "ip saddr"),
    ...dispatch("ingress", "ip daddr"),
    "  }",
    "}",
  ];
}

/** No chain where no policy selects the pod: everything is allowed then. */
function compilePod(observed: ObservedPolicies, pod: PolicyPod, direction: Direction): Chain[] {
  const selecting = observed.policies.filter(
    ({ namespace, spec }) =>
      namespace === pod.namespace &&
      hasDirection(spec, direction) &&
      matchesSelector(spec.podSelector ?? {}, pod.labels),
  );
  if (selecting.length === 0) return [];
  const rules = selecting.flatMap((policy) => {
    const all =
      direction === "ingress"
        ? (policy.spec.ingress ?? []).map(({ from, ports }) => ({ peers: from, ports }))
        : (policy.spec.egress ?? []).map(({ to, ports }) => ({ peers: to, ports }));
    return all.flatMap((rule) =>
      compileRule(observed, { ...rule, pod, direction, namespace: policy.namespace }),
    );
  });
  const name = `${direction}_${pod.ip.replaceAll(".", "_")}`;
  return [{ direction, ip: pod.ip, name, rules: [...new Set(rules)] }];
}

/** As the API says it: without types a policy is about ingress, and about egress where it has such rules. */
function hasDirection({ policyTypes, egress }: PolicySpec, direction: Direction): boolean {
  if (policyTypes && policyTypes.length > 0)
    return policyTypes.includes(direction === "ingress" ? "Ingress" : "Egress");
  return direction === "ingress" || egress !== undefined;
}

interface Rule {
  readonly pod: PolicyPod;
  readonly direction: Direction;
  readonly namespace: string;
  readonly peers: readonly Peer[] | undefined;
  readonly ports: readonly PolicyPort[] | undefined;
}

function compileRule(observed: ObservedPolicies, rule: Rule): string[] {
  const { peers = [], ports = [] } = rule;
  const isForAll = peers.length === 0;
  const blocks = peers.flatMap((peer) => (peer.ipBlock ? [peer.ipBlock] : []));
  const pods = observed.pods.filter((pod) => peers.some((peer) => selects(observed, rule, { peer, pod })));
  const field = rule.direction === "ingress" ? "ip saddr" : "ip daddr";
  const sources: { readonly match: string; readonly targets: readonly PolicyPod[] }[] = [
    ...(isForAll ? [{ match: "", targets: observed.pods }] : []),
    ...(pods.length > 0
      ? [{ match: `${field} { ${pods.map(({ ip }) => ip).join(", ")} } `, targets: pods }]
      : []),
    ...blocks.flatMap((block) => formatBlock(field, block).map((match) => ({ match, targets: [] }))),
  ];
  return sources.flatMap(({ match, targets }) => {
    if (ports.length === 0) return [`${match}return`];
    const named = rule.direction === "ingress" ? [rule.pod] : targets;
    return ports.flatMap((port) => formatPort(port, named).map((text) => `${match}${text} return`));
  });
}

function selects(
  { namespaces }: ObservedPolicies,
  { namespace }: Rule,
  { peer, pod }: { readonly peer: Peer; readonly pod: PolicyPod },
): boolean {
  if (peer.ipBlock) return false;
  const { podSelector, namespaceSelector } = peer;
  if (!podSelector && !namespaceSelector) return false;
  const isThere = namespaceSelector
    ? matchesSelector(namespaceSelector, namespaces.get(pod.namespace) ?? {})
    : pod.namespace === namespace;
  return isThere && matchesSelector(podSelector ?? {}, pod.labels);
}

/** Addresses of machines are IPv4; what is said about others concerns none. */
function formatBlock(
  field: string,
  { cidr, except = [] }: { readonly cidr: string; readonly except?: readonly string[] },
): string[] {
  if (!isIpv4Block(cidr)) return [];
  const but = except.filter(isIpv4Block);
  return [
    [
      cidr.endsWith("/0") ? "" : `${field} ${cidr} `,
      but.length > 0 ? `${field} != { ${but.join(", ")} } ` : "",
    ].join(""),
  ];
}

function isIpv4Block(cidr: string): boolean {
  return /^\d{1,3}(\.\d{1,3}){3}\/\d{1,2}$/.test(cidr);
}

function formatPort({ port, endPort, protocol = "TCP" }: PolicyPort, named: readonly PolicyPod[]): string[] {
  const kind = protocol.toLowerCase();
  if (!["tcp", "udp", "sctp"].includes(kind)) return [];
  if (port === undefined) return [`meta l4proto ${kind}`];
  if (typeof port === "number")
    return [`${kind} dport ${endPort === undefined ? port : `${port}-${endPort}`}`];
  const numbers = named.flatMap(({ ports }) =>
    ports
      .filter((each) => each.name === port && (each.protocol ?? "TCP") === protocol)
      .map((each) => each.containerPort),
  );
  const unique = [...new Set(numbers)];
  return unique.length > 0 ? [`${kind} dport { ${unique.join(", ")} }`] : [];
}

function matchesSelector(selector: LabelSelector, labels: Readonly<Record<string, string>>): boolean {
  return matchesLabels(parseRequirements(selector), labels);
}
