/**
 * The platform as a list of components. Every part of Cocoon that runs on this machine is an entry here; `up`,
 * `down`, `status`, `logs` and `doctor` all read the same list. The control plane is among them, unless the platform
 * uses a cluster that exists elsewhere.
 */
import {
  cachedBinaries,
  defaultCacheRoot,
  describeControlPlane,
  prepareControlPlane,
  type Component,
  type PrepareOptions,
} from "@cocoon/controlplane";
import { readExternalCluster } from "./external-cluster.ts";
import type { Environment } from "./home.ts";

export interface Platform {
  readonly directory: string;
  /** URL of the Kubernetes API. */
  readonly server: string;
  /** The file that reaches it, and its context where that is not the current one. */
  readonly kubeconfig: string;
  readonly context?: string;
  readonly components: readonly Component[];
}

/** Makes the files and ports that the components need. Idempotent; disposing gives the port reservations back. */
export async function preparePlatform(options: PrepareOptions): Promise<Platform & AsyncDisposable> {
  const prepared = await prepareControlPlane(options);
  return {
    directory: options.directory,
    server: prepared.server,
    kubeconfig: prepared.layout.kubeconfig,
    components: prepared.components,
    [Symbol.asyncDispose]: () => prepared[Symbol.asyncDispose](),
  };
}

/** The platform that was brought up before in that directory, if any. Reads only. */
export async function knownPlatform(directory: string, env: Environment): Promise<Platform | undefined> {
  const external = await readExternalCluster(directory);
  if (external) return { directory, ...external, components: [] };
  const described = await describeControlPlane(directory, cachedBinaries(defaultCacheRoot(env)));
  if (!described) return undefined;
  const { server, layout, components } = described;
  return { directory, server, kubeconfig: layout.kubeconfig, components };
}
