/** What the parts of the QEMU backend share: settings, the store, the host, and the ports they stand on. */
import type { Logger } from "@cocoon/core";
import type { ImageStore, VmNetwork } from "@cocoon/vm";
import type { SnapshotStore } from "./store/snapshot-store.ts";
import type { VmStore } from "./store/vm-store.ts";
import type { LazyRegistry } from "./lazy/page-server-config.ts";
import type { QemuHost } from "./process/host.ts";

/** What it takes to start machines before their files are here. */
export interface LazySettings {
  readonly registry: LazyRegistry;
  /** The node's chunk store. */
  readonly store: { readonly directory: string; readonly limitBytes: number };
}

export interface QemuSettings {
  readonly rootDirectory: string;
  /** Cgroup below which each VM gets its own; empty = none. */
  readonly cgroupParent: string;
  /** Users that machines run as, one each, from `uid` on (default one for all), and their group; absent = ours. */
  readonly runAs?: { readonly uid: number; readonly gid: number; readonly count?: number };
  readonly defaults: { readonly cpus: number; readonly memoryBytes: number; readonly storageBytes: number };
  /** Largest number of vCPUs of one VM. */
  readonly hostCpus: number;
  /** Guests on the user network may connect to this host's own addresses. */
  readonly allowHostLoopback: boolean;
  /** A guest whose agent has not answered and whose console is silent for so long counts as hung at boot. */
  readonly bootSilenceMs: number;
  /** False where pages cannot be read, or for tests of what happens then. */
  readonly readPages: boolean;
  /** Absent: machines are started from local snapshots only. */
  readonly lazy?: LazySettings & { readonly program: readonly string[]; readonly path: string };
}

export interface QemuContext {
  readonly settings: QemuSettings;
  readonly store: VmStore;
  readonly snapshots: SnapshotStore;
  readonly host: QemuHost;
  readonly images: ImageStore;
  /** By name; the first one is the default. */
  readonly networks: ReadonlyMap<string, VmNetwork>;
  readonly log: Logger;
  readonly now: () => Date;
}
