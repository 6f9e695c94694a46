/** What the parts of the QEMU backend share: settings, the store, the host, and the ports they stand on. */
import type { Logger } from "@cocoon/core";
import type { ImageStore } from "../image-store.ts";
import type { SnapshotStore } from "../store/snapshot-store.ts";
import type { VmStore } from "../store/vm-store.ts";
import type { VmNetwork } from "../vm-network.ts";
import type { QemuHost } from "./host.ts";

export interface QemuSettings {
  readonly rootDirectory: string;
  /** Firmware of the system: SeaBIOS, and OVMF with its variables. */
  readonly firmware: { readonly bios: string; readonly uefiCode: string; readonly uefiVariables: string };
  /** Cgroup below which each VM gets its own; empty = none. */
  readonly cgroupParent: string;
  /** User that QEMU runs as, where we may choose; absent = ours. */
  readonly runAs?: { readonly uid: number; readonly gid: number };
  readonly defaults: { readonly cpus: number; readonly memoryBytes: number; readonly storageBytes: number };
  readonly minimum: { readonly memoryBytes: number; readonly storageBytes: number };
  /** Largest number of vCPUs of one VM. */
  readonly hostCpus: number;
  /** Give new machines a vsock device; the host must have /dev/vhost-vsock. */
  readonly vsock: boolean;
  /** False where pages cannot be read, or for tests of what happens then. */
  readonly readPages: boolean;
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
