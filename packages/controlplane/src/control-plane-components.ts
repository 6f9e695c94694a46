/** etcd and the Kubernetes components as data: their command lines, and how to see that they are ready. */
import { join } from "node:path";
import type { Binaries } from "./binaries/resolve.ts";
import type { Component } from "./components/component.ts";
import { probeHttps } from "./https-probe.ts";
import type { ClusterLayout, ClusterPorts, ControlPlaneSettings } from "./layout.ts";
import type { PkiFiles } from "./pki/cluster-pki.ts";

export interface ControlPlaneContext {
  readonly layout: ClusterLayout;
  readonly binaries: Binaries;
  readonly ports: ClusterPorts;
  readonly pki: PkiFiles;
  readonly settings: ControlPlaneSettings;
}

export function controlPlaneComponents(context: ControlPlaneContext): Component[] {
  const components = [etcd(context), apiserver(context)];
  return context.settings.controllers
    ? [...components, controllerManager(context), scheduler(context)]
    : components;
}

const loopback = "127.0.0.1";

function etcd({ layout, binaries, ports, pki, settings }: ControlPlaneContext): Component {
  const client = `https://${loopback}:${ports.etcd}`;
  const peer = `https://${loopback}:${ports.etcdPeer}`;
  const { certificate, key } = pki.leaf.etcd;
  return {
    name: "etcd",
    summary: "the cluster's database",
    needs: [],
    command: binaries.etcd,
    args: [
      "--name=cocoon",
      `--data-dir=${layout.etcd}`,
      `--listen-client-urls=${client}`,
      `--advertise-client-urls=${client}`,
      `--listen-peer-urls=${peer}`,
      `--initial-advertise-peer-urls=${peer}`,
      `--initial-cluster=cocoon=${peer}`,
      `--cert-file=${certificate}`,
      `--key-file=${key}`,
      `--trusted-ca-file=${pki.ca.certificate}`,
      "--client-cert-auth",
      `--peer-cert-file=${certificate}`,
      `--peer-key-file=${key}`,
      `--peer-trusted-ca-file=${pki.ca.certificate}`,
      "--peer-client-cert-auth",
      "--auto-compaction-mode=periodic",
      "--auto-compaction-retention=30m",
      "--quota-backend-bytes=4294967296",
      "--log-level=warn",
      ...(settings.durable ? [] : ["--unsafe-no-fsync"]),
    ],
    probe: probe(pki, `${client}/health`, "apiserver-kubelet-client"),
  };
}

function apiserver(context: ControlPlaneContext): Component {
  const { layout, binaries, ports, pki, settings } = context;
  const client = pki.leaf["apiserver-kubelet-client"];
  return {
    name: "kube-apiserver",
    summary: "the Kubernetes API",
    needs: ["etcd"],
    command: binaries["kube-apiserver"],
    args: [
      `--etcd-servers=https://${loopback}:${ports.etcd}`,
      `--etcd-cafile=${pki.ca.certificate}`,
      `--etcd-certfile=${client.certificate}`,
      `--etcd-keyfile=${client.key}`,
      `--bind-address=${loopback}`,
      `--secure-port=${ports.apiserver}`,
      // A loopback address may not stand in the Endpoints of the service "kubernetes".
      settings.advertiseAddress === ""
        ? "--endpoint-reconciler-type=none"
        : `--advertise-address=${settings.advertiseAddress}`,
      `--tls-cert-file=${pki.leaf.apiserver.certificate}`,
      `--tls-private-key-file=${pki.leaf.apiserver.key}`,
      `--client-ca-file=${pki.ca.certificate}`,
      "--anonymous-auth=false",
      "--authorization-mode=Node,RBAC",
      `--service-account-key-file=${pki.serviceAccount.publicKey}`,
      `--service-account-signing-key-file=${pki.serviceAccount.key}`,
      "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
      "--service-cluster-ip-range=10.0.0.0/16",
      "--allow-privileged=true",
      `--kubelet-certificate-authority=${pki.ca.certificate}`,
      `--kubelet-client-certificate=${client.certificate}`,
      `--kubelet-client-key=${client.key}`,
      "--kubelet-preferred-address-types=InternalIP,Hostname",
      "--profiling=false",
      ...(settings.controllers ? [] : ["--disable-admission-plugins=ServiceAccount"]),
      ...(settings.aggregation ? aggregationArguments(pki) : []),
      ...(settings.auditLog ? auditArguments(layout) : []),
    ],
    probe: probe(pki, `https://${loopback}:${ports.apiserver}/readyz`, "admin"),
    stopGraceMs: 20_000,
  };
}

function aggregationArguments(pki: PkiFiles): string[] {
  const client = pki.leaf["front-proxy-client"];
  return [
    `--requestheader-client-ca-file=${pki.frontProxyCa.certificate}`,
    "--requestheader-allowed-names=front-proxy-client",
    "--requestheader-username-headers=X-Remote-User",
    "--requestheader-group-headers=X-Remote-Group",
    "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    `--proxy-client-cert-file=${client.certificate}`,
    `--proxy-client-key-file=${client.key}`,
  ];
}

function auditArguments(layout: ClusterLayout): string[] {
  return [
    `--audit-policy-file=${join(layout.audit, "policy.yaml")}`,
    `--audit-log-path=${join(layout.audit, "audit.log")}`,
    "--audit-log-maxsize=100",
    "--audit-log-maxbackup=3",
  ];
}

function controllerManager(context: ControlPlaneContext): Component {
  const { binaries, ports, pki } = context;
  return {
    name: "kube-controller-manager",
    summary: "Deployments, ReplicaSets, Jobs, garbage collection",
    needs: ["kube-apiserver"],
    command: binaries["kube-controller-manager"],
    args: [
      ...componentArguments(context, "controller-manager", ports.controllerManager),
      `--root-ca-file=${pki.ca.certificate}`,
      `--service-account-private-key-file=${pki.serviceAccount.key}`,
      `--cluster-signing-cert-file=${pki.ca.certificate}`,
      `--cluster-signing-key-file=${pki.ca.key}`,
      "--use-service-account-credentials=true",
    ],
    probe: probe(pki, `https://${loopback}:${ports.controllerManager}/healthz`),
  };
}

function scheduler(context: ControlPlaneContext): Component {
  const { binaries, ports, pki } = context;
  return {
    name: "kube-scheduler",
    summary: "gives pods their nodes",
    needs: ["kube-apiserver"],
    command: binaries["kube-scheduler"],
    args: componentArguments(context, "scheduler", ports.scheduler),
    probe: probe(pki, `https://${loopback}:${ports.scheduler}/healthz`),
  };
}

/** Whether the address answers 200; `client` is the certificate that it demands. */
function probe(pki: PkiFiles, url: string, client?: keyof PkiFiles["leaf"]): Component["probe"] {
  const certificate = client ? { client: pki.leaf[client] } : {};
  return (options) => probeHttps({ url, authority: pki.ca.certificate, ...certificate }, options);
}

function componentArguments(
  { layout, pki }: ControlPlaneContext,
  name: "controller-manager" | "scheduler",
  port: number,
): string[] {
  const kubeconfig = join(layout.kubeconfigs, name);
  return [
    `--kubeconfig=${kubeconfig}`,
    `--authentication-kubeconfig=${kubeconfig}`,
    `--authorization-kubeconfig=${kubeconfig}`,
    `--bind-address=${loopback}`,
    `--secure-port=${port}`,
    `--tls-cert-file=${pki.leaf.components.certificate}`,
    `--tls-private-key-file=${pki.leaf.components.key}`,
    "--leader-elect=false",
    "--profiling=false",
  ];
}
