/** Kubeconfigs and clients for the clusters of the tests. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createLogger } from "@cocoon/core";
import { openKubeClient, type KubeConnection } from "@cocoon/kube";
import { temporaryDirectory, type TestCluster } from "@cocoon/testkit";

const forever = new AbortController().signal;

export interface Kubeconfig {
  "current-context": string;
  clusters: { name: string; cluster: Record<string, unknown> }[];
  users: { name: string; user: Record<string, unknown> }[];
  contexts: { name: string; context: Record<string, unknown> }[];
}

/** The administrator's, to be changed at will. */
export async function readKubeconfig(cluster: TestCluster): Promise<Kubeconfig> {
  const view = await cluster.kubectl(["config", "view", "--raw", "-o", "json"]);
  return JSON.parse(view.stdout) as Kubeconfig;
}

export interface KubeconfigFile extends AsyncDisposable {
  readonly path: string;
  readonly directory: string;
}

export async function writeKubeconfig(config: Kubeconfig): Promise<KubeconfigFile> {
  const directory = await temporaryDirectory();
  const path = join(directory.path, "kubeconfig");
  await writeFile(path, JSON.stringify(config), { mode: 0o600 });
  return { path, directory: directory.path, [Symbol.asyncDispose]: () => directory[Symbol.asyncDispose]() };
}

/** The same cluster at another address, such as that of a proxy. */
export async function kubeconfigVia(cluster: TestCluster, server: string): Promise<KubeconfigFile> {
  const config = await readKubeconfig(cluster);
  for (const each of config.clusters) each.cluster["server"] = server;
  return writeKubeconfig(config);
}

/** Patient: the machine may be busy, and a write that ran out of time may have happened or not. */
export function openClient(cluster: TestCluster): Promise<KubeConnection> {
  return openKubeClient({ kubeconfig: cluster.kubeconfigPath, signal: forever, timeoutMs: 180_000 });
}

/** Says what went wrong in a run that fails; warnings and worse only. */
export const testLog = createLogger({ name: "kube-client test", level: "warn", destination: process.stderr });
