/**
 * The platform as a list of components. Every part of Cocoon that runs on this machine is an entry here; `up`,
 * `down`, `status`, `logs` and `doctor` all read the same list. The control plane is among them, unless the platform
 * uses a cluster that exists elsewhere.
 */
import {
  cachedBinaries,
  defaultCacheRoot,
  describeControlPlane,
  planControlPlane,
  prepareControlPlane,
  type Binaries,
  type Component,
  type PreparedControlPlane,
  type PrepareOptions,
} from "@cocoon/controlplane";
import { readExternalCluster } from "./external-cluster.ts";
import type { Environment } from "./home.ts";
import { knownParts, plannedParts, prepareParts, type PartsRequest } from "./parts/parts.ts";

export interface Platform {
  readonly directory: string;
  /** URL of the Kubernetes API. */
  readonly server: string;
  /** The file that reaches it, and its context where that is not the current one. */
  readonly kubeconfig: string;
  readonly context?: string;
  readonly components: readonly Component[];
}

export interface PlatformRequest extends PrepareOptions {
  /** Only the control plane, without the parts of Cocoon. */
  readonly bare?: boolean;
}

/** Makes the files and ports that the components need. Idempotent; disposing gives the port reservations back. */
export async function preparePlatform(request: PlatformRequest): Promise<Platform & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const prepared = stack.use(await prepareControlPlane(request));
  const parts = request.bare ? [] : await prepareParts(partsRequest(prepared, request.binaries), stack);
  const kept = stack.move();
  return {
    directory: request.directory,
    server: prepared.server,
    kubeconfig: prepared.layout.kubeconfig,
    components: [...prepared.components, ...parts],
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The components as `up` would start them. Nothing is written. */
export async function planComponents(request: PlatformRequest): Promise<readonly Component[]> {
  await using stack = new AsyncDisposableStack();
  const planned = await planControlPlane(request);
  const parts = request.bare ? [] : await plannedParts(partsRequest(planned, request.binaries), stack);
  return [...planned.components, ...parts];
}

/** The platform that was brought up before in that directory, if any. Reads only. */
export async function knownPlatform(directory: string, env: Environment): Promise<Platform | undefined> {
  const external = await readExternalCluster(directory);
  if (external) return { directory, ...external, components: [] };
  const binaries = cachedBinaries(defaultCacheRoot(env));
  const described = await describeControlPlane(directory, binaries);
  if (!described) return undefined;
  const { server, layout, components } = described;
  const parts = await knownParts(partsRequest(described, binaries));
  return { directory, server, kubeconfig: layout.kubeconfig, components: [...components, ...parts] };
}

type Described = Pick<PreparedControlPlane, "layout" | "pki" | "server">;

function partsRequest({ layout, pki, server }: Described, { kubectl }: Binaries): PartsRequest {
  const { directory, kubeconfig } = layout;
  return { directory, pki, server, kubeconfig, kubectl, path: process.env["PATH"] ?? "" };
}
