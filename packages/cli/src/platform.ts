/**
 * The platform as a list of components. Every part of Cocoon that runs on this machine is an entry here; `up`,
 * `down`, `status`, `logs` and `doctor` all read the same list.
 */
import {
  cachedBinaries,
  defaultCacheRoot,
  describeControlPlane,
  prepareControlPlane,
  type ClusterLayout,
  type Component,
  type PrepareOptions,
} from "@cocoon/controlplane";
import type { Environment } from "./home.ts";

export interface Platform {
  readonly layout: ClusterLayout;
  /** URL of the Kubernetes API. */
  readonly server: string;
  readonly components: readonly Component[];
}

/** Makes the files and ports that the components need. Idempotent; disposing gives the port reservations back. */
export function preparePlatform(options: PrepareOptions): Promise<Platform & AsyncDisposable> {
  return prepareControlPlane(options);
}

/** The platform that was brought up before in that directory, if any. Reads only. */
export function knownPlatform(directory: string, env: Environment): Promise<Platform | undefined> {
  return describeControlPlane(directory, cachedBinaries(defaultCacheRoot(env)));
}
