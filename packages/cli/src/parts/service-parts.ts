/** Services on the machines' network: kube-proxy leads their addresses to machines, CoreDNS their names. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Component } from "@cocoon/controlplane";
import { writeFileAtomically } from "@cocoon/core";
import {
  clusterCidr,
  controlPlaneAddress,
  dnsServiceAddress,
  outsideDns,
  type NodeLink,
} from "../network/topology.ts";
import { applyManifests, readManifests, type Manifest } from "./apply.ts";
import { networkDirectory, placeInNode, placeInRouter } from "./cluster-network.ts";
import { account, partKubeconfig } from "./identity.ts";
import { loopback, probeHttp, type PartContext } from "./part.ts";

const rights = "cluster-network/rbac.yaml";

export function kubeProxyPart(context: PartContext, { number, address }: NodeLink): Component {
  const healthPort = context.ports[`proxy${number}Health`];
  return placeInNode(context, number, {
    name: `kube-proxy-${number}`,
    summary: `Services on node cocoon-${number}`,
    needs: ["kube-apiserver", "relay"],
    command: context.programs["kube-proxy"],
    args: [
      `--kubeconfig=${partKubeconfig(context, account.kubeProxy)}`,
      `--hostname-override=cocoon-${number}`,
      `--bind-address=${address}`,
      "--proxy-mode=nftables",
      `--cluster-cidr=${clusterCidr}`,
      `--healthz-bind-address=${loopback}:${healthPort}`,
      "--metrics-bind-address=",
      // Limits of the kernel's connection table are the host's, and stay as they are.
      "--conntrack-max-per-core=0",
      "--conntrack-tcp-timeout-established=0s",
      "--conntrack-tcp-timeout-close-wait=0s",
    ],
    prepare: async (options) => applyManifests(context, await readManifests(rights), options),
    probe: (options) => probeHttp(healthPort, "/livez", options),
  });
}

export function corednsPart(context: PartContext): Component {
  const configuration = join(networkDirectory(context), "Corefile");
  const healthPort = context.ports.dnsHealth;
  return placeInRouter(context, {
    name: "coredns",
    summary: "names of Services and machines",
    needs: ["kube-apiserver", "relay"],
    command: context.programs.coredns,
    args: ["-conf", configuration],
    prepare: async (options) => {
      await mkdir(networkDirectory(context), { recursive: true, mode: 0o700 });
      await writeFileAtomically(configuration, buildCorefile(context));
      await applyManifests(context, [...(await readManifests(rights)), ...describeDns()], options);
    },
    probe: (options) => probeHttp(healthPort, "/ready", options),
  });
}

function buildCorefile(context: PartContext): string {
  return `.:53 {
  bind ${controlPlaneAddress}
  errors
  ready ${loopback}:${context.ports.dnsHealth}
  kubernetes cluster.local in-addr.arpa ip6.arpa {
    kubeconfig ${partKubeconfig(context, account.coredns)}
    fallthrough in-addr.arpa ip6.arpa
    ttl 5
  }
  forward . ${outsideDns}
  cache 30
  loadbalance
}
`;
}

/** A Service without a selector: CoreDNS is not a pod here. */
function describeDns(): Manifest[] {
  const [name, namespace] = ["kube-dns", account.coredns.namespace];
  const ports = [
    { name: "dns", port: 53, protocol: "UDP" },
    { name: "dns-tcp", port: 53, protocol: "TCP" },
  ];
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, namespace },
      spec: { clusterIP: dnsServiceAddress, ports },
    },
    {
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name, namespace, labels: { "kubernetes.io/service-name": name } },
      addressType: "IPv4",
      endpoints: [{ addresses: [controlPlaneAddress], conditions: { ready: true } }],
      ports,
    },
  ];
}
