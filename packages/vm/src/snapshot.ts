/** What a snapshot is, seen from outside. */
import type { Hypervisor, VmConfig } from "./vm.ts";

export interface Snapshot {
  readonly id: string;
  /** Empty when it was saved without one. */
  readonly name: string;
  readonly description?: string;
  readonly hypervisor: Hypervisor;
  readonly config: VmConfig;
  readonly nics: number;
  /** Hex digests of the base images that it stands on. */
  readonly imageBlobIds: readonly string[];
  readonly createdAt: string;
  /** When a VM was last cloned or restored from it. */
  readonly lastUsedAt?: string;
  /** The VM it was taken of; absent for an imported one. */
  readonly vmId?: string;
  /** Bytes on this host, holes not counted. */
  readonly sizeBytes: number;
}

/** What a save cost: only `pausedMs` was felt by the guest. */
export interface SaveReport {
  readonly snapshot: Snapshot;
  readonly pausedMs: number;
  readonly dirtyBytes: number;
  readonly tookMs: number;
}
