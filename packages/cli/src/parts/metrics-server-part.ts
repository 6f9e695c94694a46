/** metrics-server, for `kubectl top`: scrapes the nodes, and serves metrics.k8s.io behind the API server. */
import { readFile } from "node:fs/promises";
import { probeHttps, type Component } from "@cocoon/controlplane";
import { applyManifests, readManifests, type Manifest } from "./apply.ts";
import { account, partKubeconfig } from "./identity.ts";
import { loopback, type PartContext } from "./part.ts";

const { namespace, name } = account.metricsServer;

export function metricsServerPart(context: PartContext): Component {
  const { ports, pki, programs } = context;
  const kubeconfig = partKubeconfig(context, account.metricsServer);
  const { certificate, key } = pki.leaf["metrics-server"];
  return {
    name,
    summary: "measures nodes and machines for kubectl top",
    needs: ["kube-apiserver"],
    command: programs["metrics-server"],
    args: [
      `--kubeconfig=${kubeconfig}`,
      `--authentication-kubeconfig=${kubeconfig}`,
      `--authorization-kubeconfig=${kubeconfig}`,
      `--bind-address=${loopback}`,
      `--secure-port=${ports.metricsServer}`,
      `--tls-cert-file=${certificate}`,
      `--tls-private-key-file=${key}`,
      `--kubelet-certificate-authority=${pki.ca.certificate}`,
      "--kubelet-preferred-address-types=InternalIP",
      "--kubelet-use-node-status-port",
      "--metric-resolution=15s",
    ],
    prepare: async (options) => {
      const authority = (await readFile(pki.ca.certificate)).toString("base64");
      const rights = await readManifests("metrics-server/rbac.yaml");
      await applyManifests(context, [...rights, ...describeApi(ports.metricsServer, authority)], options);
    },
    probe: (options) =>
      probeHttps(
        { url: `https://${loopback}:${ports.metricsServer}/livez`, authority: pki.ca.certificate },
        options,
      ),
  };
}

/** The API server reaches it at the loopback address: a Service with an external name needs no proxy. */
function describeApi(port: number, caBundle: string): Manifest[] {
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, namespace },
      spec: { type: "ExternalName", externalName: "localhost", ports: [{ port, protocol: "TCP" }] },
    },
    {
      apiVersion: "apiregistration.k8s.io/v1",
      kind: "APIService",
      metadata: { name: "v1beta1.metrics.k8s.io" },
      spec: {
        service: { name, namespace, port },
        group: "metrics.k8s.io",
        version: "v1beta1",
        caBundle,
        groupPriorityMinimum: 100,
        versionPriority: 100,
      },
    },
  ];
}
