/** Prepares a cluster's files and ports; the components it returns are started and stopped by the runner. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomically } from "@cocoon/core";
import type { Binaries } from "./binaries/resolve.ts";
import { kubernetesVersion } from "./binaries/programs.ts";
import type { Component } from "./components/component.ts";
import { findRunning } from "./components/run-records.ts";
import { controlPlaneComponents } from "./control-plane-components.ts";
import { writeKubeconfig } from "./kubeconfig.ts";
import {
  clusterLayout,
  defaultSettings,
  readClusterState,
  writeClusterState,
  type ClusterLayout,
  type ClusterPorts,
  type ClusterState,
  type ControlPlaneSettings,
  type PortName,
} from "./layout.ts";
import { ensureClusterPki, pkiFiles, type PairFiles, type PkiFiles } from "./pki/cluster-pki.ts";
import { keepPorts } from "./ports.ts";

export interface PrepareOptions {
  readonly directory: string;
  readonly binaries: Binaries;
  readonly settings?: Partial<ControlPlaneSettings>;
  readonly apiserverPort?: number;
}

export interface PreparedControlPlane extends AsyncDisposable {
  readonly layout: ClusterLayout;
  readonly ports: ClusterPorts;
  readonly pki: PkiFiles;
  readonly server: string;
  readonly components: readonly Component[];
}

type Description = Omit<PreparedControlPlane, typeof Symbol.asyncDispose>;

/** The cluster of a directory as it was prepared last, without touching anything; undefined when there is none. */
export async function describeControlPlane(
  directory: string,
  binaries: Binaries,
): Promise<Description | undefined> {
  const layout = clusterLayout(directory);
  const state = await readClusterState(layout);
  return state ? describe(layout, binaries, state) : undefined;
}

function describe(layout: ClusterLayout, binaries: Binaries, state: ClusterState): Description {
  const { ports, settings } = state;
  const pki = pkiFiles(layout.pki);
  const components = controlPlaneComponents({ layout, binaries, ports, pki, settings });
  return { layout, ports, pki, server: `https://127.0.0.1:${ports.apiserver}`, components };
}

/** What `prepareControlPlane` would prepare, without writing anything; ports not chosen yet are found, not kept. */
export async function planControlPlane(options: PrepareOptions): Promise<Description> {
  const layout = clusterLayout(options.directory);
  const before = await readClusterState(layout);
  await using stack = new AsyncDisposableStack();
  const ports = before?.ports ?? (await choosePorts({ layout, before: undefined, options, stack }));
  const settings = { ...(before?.settings ?? defaultSettings), ...options.settings };
  const wanted = { ...ports, ...(options.apiserverPort ? { apiserver: options.apiserverPort } : {}) };
  return describe(layout, options.binaries, {
    version: 1,
    kubernetes: kubernetesVersion,
    settings,
    ports: wanted,
  });
}

/** Idempotent. Disposing gives back the port reservations, not the cluster. */
export async function prepareControlPlane(options: PrepareOptions): Promise<PreparedControlPlane> {
  const layout = clusterLayout(options.directory);
  const before = await readClusterState(layout);
  const settings = { ...(before?.settings ?? defaultSettings), ...options.settings };
  await mkdir(layout.kubeconfigs, { recursive: true, mode: 0o700 });
  await using stack = new AsyncDisposableStack();
  const ports = await choosePorts({ layout, before: before?.ports, options, stack });
  const state: ClusterState = { version: 1, kubernetes: kubernetesVersion, settings, ports };
  await writeClusterState(layout, state);
  const described = describe(layout, options.binaries, state);
  await ensureClusterPki(layout.pki);
  await writeKubeconfigs(layout, described.pki, described.server);
  if (settings.auditLog) await writeAuditPolicy(layout);
  const reservations = stack.move();
  return { ...described, [Symbol.asyncDispose]: () => reservations.disposeAsync() };
}

const portOwners: Readonly<Record<PortName, string>> = {
  etcd: "etcd",
  etcdPeer: "etcd",
  apiserver: "kube-apiserver",
  controllerManager: "kube-controller-manager",
  scheduler: "kube-scheduler",
};

interface PortChoice {
  readonly layout: ClusterLayout;
  readonly before: ClusterPorts | undefined;
  readonly options: PrepareOptions;
  readonly stack: AsyncDisposableStack;
}

async function choosePorts({ layout, before, options, stack }: PortChoice): Promise<ClusterPorts> {
  const { apiserverPort } = options;
  return keepPorts({
    owners: portOwners,
    before: before ?? {},
    isRunning: async (component) => (await findRunning(layout.directory, component)) !== undefined,
    ...(apiserverPort === undefined ? {} : { insisted: { apiserver: apiserverPort } }),
    stack,
  });
}

async function writeKubeconfigs(layout: ClusterLayout, pki: PkiFiles, server: string): Promise<void> {
  const common = { server, authority: pki.ca.certificate };
  const write = (path: string, name: string, client: PairFiles) =>
    writeKubeconfig(path, { ...common, name, client });
  await Promise.all([
    write(layout.kubeconfig, "cocoon", pki.leaf.admin),
    ...(["controller-manager", "scheduler"] as const).map((name) =>
      write(join(layout.kubeconfigs, name), name, pki.leaf[name]),
    ),
  ]);
}

/** Who did what to which object, without bodies: secrets must not end up in a log. */
async function writeAuditPolicy(layout: ClusterLayout): Promise<void> {
  const policy =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n  - level: Metadata\n";
  await mkdir(layout.audit, { recursive: true, mode: 0o700 });
  await writeFileAtomically(join(layout.audit, "policy.yaml"), policy);
}
