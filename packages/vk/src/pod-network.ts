/** What a pod asks of its network: ports of the host, limits, name servers. Pure, but for this host's name servers. */
import { tryReadFile } from "@cocoon/core";
import { quantityUnits, tryParseQuantity } from "@cocoon/core/quantity";
import type { Pod } from "@cocoon/kubelet";
import type { NetworkSpec } from "@cocoon/vm";

/** Name servers of pods. */
export interface DnsFacts {
  /** Of the cluster; empty: it has none that is known here. */
  readonly clusterServers: readonly string[];
  readonly clusterDomain: string;
  /** Of this host, as far as guests can reach them. */
  readonly hostServers: readonly string[];
  readonly hostSearches: readonly string[];
}

export const noDns: DnsFacts = {
  clusterServers: [],
  clusterDomain: "cluster.local",
  hostServers: [],
  hostSearches: [],
};

type PodNetwork = Pick<NetworkSpec, "pod" | "hostPorts" | "bandwidth" | "dns">;

export function readPodNetwork(pod: Pod, dns: DnsFacts): PodNetwork {
  const { namespace = "", name = "", uid = "" } = pod.metadata;
  const hostPorts = readHostPorts(pod);
  const bandwidth = readBandwidth(pod);
  const resolver = readDns(pod, dns);
  return {
    pod: { namespace, name, uid },
    ...(hostPorts.length > 0 ? { hostPorts } : {}),
    ...(bandwidth ? { bandwidth } : {}),
    ...(resolver.servers.length > 0 ? { dns: resolver } : {}),
  };
}

function readHostPorts({ spec }: Pod): NonNullable<NetworkSpec["hostPorts"]> {
  return spec.containers.flatMap(({ ports = [] }) =>
    ports.flatMap(({ hostPort, containerPort, protocol, hostIP }) => {
      if (!hostPort) return [];
      const isUdp = protocol?.toLowerCase() === "udp";
      return [
        {
          hostPort,
          guestPort: containerPort,
          protocol: isUdp ? ("udp" as const) : ("tcp" as const),
          ...(hostIP ? { hostIp: hostIP } : {}),
        },
      ];
    }),
  );
}

/** The annotations that Kubernetes documents for its bandwidth plugin: bits per second as quantities. */
function readBandwidth({ metadata: { annotations = {} } }: Pod): NetworkSpec["bandwidth"] {
  const ingress = readRate(annotations["kubernetes.io/ingress-bandwidth"]);
  const egress = readRate(annotations["kubernetes.io/egress-bandwidth"]);
  if (ingress === undefined && egress === undefined) return undefined;
  return {
    ...(ingress === undefined ? {} : { ingressBitsPerSecond: ingress }),
    ...(egress === undefined ? {} : { egressBitsPerSecond: egress }),
  };
}

/** Outside of what Kubernetes accepts (1k to 1P) there is no limit. */
function readRate(text: string | undefined): number | undefined {
  const quantity = text === undefined ? undefined : tryParseQuantity(text);
  const rate = quantity ? Number(quantityUnits(quantity)) : 0;
  return rate >= 1e3 && rate <= 1e15 ? rate : undefined;
}

/** As the kubelet does it for containers, by `dnsPolicy` and `dnsConfig`. */
function readDns({ metadata, spec }: Pod, facts: DnsFacts): NonNullable<NetworkSpec["dns"]> {
  const { nameservers = [], searches = [] } = spec.dnsConfig ?? {};
  const base = chooseResolver(spec.dnsPolicy ?? "ClusterFirst", metadata.namespace ?? "", facts);
  return {
    servers: [...new Set([...base.servers, ...nameservers])].slice(0, 3),
    searches: [...new Set([...base.searches, ...searches])],
  };
}

// oxlint-disable-next-line max-params -- the policy, where, and what there is
function chooseResolver(policy: string, namespace: string, facts: DnsFacts): NonNullable<NetworkSpec["dns"]> {
  if (policy === "None") return { servers: [], searches: [] };
  const host = { servers: facts.hostServers, searches: facts.hostSearches };
  if (policy === "Default" || facts.clusterServers.length === 0) return host;
  const domain = facts.clusterDomain;
  return {
    servers: facts.clusterServers,
    searches: [`${namespace}.svc.${domain}`, `svc.${domain}`, domain, ...facts.hostSearches],
  };
}

/** systemd's own file names the real servers where the usual one names its local resolver. */
const resolverFiles = ["/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"];

export async function readHostDns(
  files: readonly string[] = resolverFiles,
): Promise<Pick<DnsFacts, "hostServers" | "hostSearches">> {
  for (const file of files) {
    const text = await tryReadFile(file);
    const found = text === undefined ? undefined : parseResolver(text);
    if (found && found.hostServers.length > 0) return found;
  }
  return { hostServers: [], hostSearches: [] };
}

/** A guest cannot reach this host's loopback. */
export function parseResolver(text: string): Pick<DnsFacts, "hostServers" | "hostSearches"> {
  const lines = text.split("\n").map((line) => line.trim().split(/\s+/));
  const servers = lines.flatMap(([key, value = ""]) => (key === "nameserver" ? [value] : []));
  const searches = lines.findLast(([key]) => key === "search" || key === "domain")?.slice(1) ?? [];
  return {
    hostServers: servers.filter((each) => /^\d+\.\d+\.\d+\.\d+$/.test(each) && !each.startsWith("127.")),
    hostSearches: searches,
  };
}
