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
  resolveBinaries,
  type Component,
  type PreparedControlPlane,
  type PrepareOptions,
} from "@cocoon/controlplane";
import { Fault, type Abortable } from "@cocoon/core";
import { readExternalCluster } from "./external-cluster.ts";
import { homeDirectory, type Environment, type HomeOptions } from "./home.ts";
import type { PartSettings } from "./parts/part.ts";
import { knownParts, partsDirectory, plannedParts, prepareParts, type PartsRequest } from "./parts/parts.ts";
import { supervisorPart } from "./parts/supervisor-part.ts";

export interface Platform {
  readonly directory: string;
  readonly server: string;
  /** The file that reaches it, and its context where that is not the current one. */
  readonly kubeconfig: string;
  readonly context?: string | undefined;
  readonly components: readonly Component[];
}

export interface PlatformRequest extends PrepareOptions {
  readonly bare?: boolean;
  readonly partSettings?: Partial<PartSettings>;
}

/** Makes the files and ports that the components need. Idempotent; disposing gives the port reservations back. */
export async function preparePlatform(
  request: PlatformRequest,
  { signal }: Abortable,
): Promise<Platform & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const prepared = stack.use(await prepareControlPlane(request));
  const parts = request.bare ? [] : await prepareParts(partsRequest(prepared, request), { stack, signal });
  const kept = stack.move();
  return {
    directory: request.directory,
    server: prepared.server,
    kubeconfig: prepared.layout.kubeconfig,
    components: withSupervisor(request.directory, [...prepared.components, ...parts]),
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The components as `up` would start them. Nothing is written. */
export async function planComponents(request: PlatformRequest): Promise<readonly Component[]> {
  await using stack = new AsyncDisposableStack();
  const planned = await planControlPlane(request);
  const parts = request.bare ? [] : await plannedParts(partsRequest(planned, request), stack);
  return withSupervisor(request.directory, [...planned.components, ...parts]);
}

/** The platform that was brought up before in that directory, if any. Reads only. */
export async function knownPlatform(directory: string, env: Environment): Promise<Platform | undefined> {
  const external = await readExternalCluster(directory);
  if (external) return { directory, ...external, components: [] };
  const binaries = cachedBinaries(defaultCacheRoot(env));
  const described = await describeControlPlane(directory, binaries);
  if (!described) return undefined;
  const { server, layout, components } = described;
  const parts = await knownParts(partsRequest(described, { binaries }));
  return {
    directory,
    server,
    kubeconfig: layout.kubeconfig,
    components: withSupervisor(directory, [...components, ...parts]),
  };
}

export async function requirePlatform(options: HomeOptions): Promise<Platform> {
  const directory = homeDirectory(options, process.env);
  const platform = await knownPlatform(directory, process.env);
  if (platform) return platform;
  throw new Fault("notFound", `no platform in ${directory}; bring one up with: npm run up`);
}

/** The one that matches the control plane. */
export async function findKubectl(signal: AbortSignal): Promise<string> {
  const cacheRoot = defaultCacheRoot(process.env);
  const options = { cacheRoot, env: process.env, signal, installAllowed: false };
  return (await resolveBinaries({ ...options, onProgress: () => undefined })).kubectl;
}

function withSupervisor(directory: string, supervised: readonly Component[]): readonly Component[] {
  return [...supervised, supervisorPart({ directory, compiled: partsDirectory(directory), supervised })];
}

type Described = Pick<PreparedControlPlane, "layout" | "pki" | "server">;

function partsRequest(
  { layout, pki, server }: Described,
  { binaries: programs, partSettings: settings }: Pick<PlatformRequest, "binaries" | "partSettings">,
): PartsRequest {
  const { directory, kubeconfig } = layout;
  return { directory, pki, server, kubeconfig, programs, settings };
}
