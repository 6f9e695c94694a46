/** What a VM is, seen from outside: the record that every backend reports. Times are ISO 8601 with milliseconds. */
import type { VmState } from "./state.ts";

/** `qemu` is ours; the others are what an external engine reports. */
export type Hypervisor = "qemu" | "cloud-hypervisor" | "firecracker";

export type GuestOs = "linux" | "windows" | "android" | "macos";

export type ImageType = "oci" | "cloudimg";

/** The machine as it was asked for, after defaults. */
export interface VmConfig {
  readonly cpus: number;
  readonly memoryBytes: number;
  /** Virtual size of the root disk. */
  readonly storageBytes: number;
  readonly os: GuestOs;
  /** The reference the VM was made from; a clone keeps its snapshot's. */
  readonly image?: string;
  readonly imageDigest?: string;
  readonly imageType?: ImageType;
  /** Named network; absent = the runtime's default. */
  readonly network?: string;
  /** Words of the caller, kept and reported, not interpreted. */
  readonly labels: Readonly<Record<string, string>>;
}

/** A guest port that can be reached from the host at another address. */
export interface PortForward {
  readonly protocol: "tcp" | "udp";
  readonly guestPort: number;
  readonly hostAddress: string;
  readonly hostPort: number;
}

export interface VmNic {
  readonly mac: string;
  readonly backend: "user" | "bridge" | "cni";
  /** Host device, where there is one. */
  readonly tap?: string;
  readonly bridge?: string;
  readonly netnsPath?: string;
  /** A fixed address the guest was given; absent when it asks by DHCP. */
  readonly address?: { readonly ip: string; readonly prefix: number; readonly gateway?: string };
  readonly queues: number;
  readonly queueSize: number;
  readonly forwards: readonly PortForward[];
}

export interface VmDisk {
  readonly path: string;
  readonly role: "layer" | "cow" | "cidata" | "data";
  readonly serial: string;
  readonly readOnly: boolean;
  readonly mountPoint?: string;
  readonly fsType?: "ext4" | "none";
}

/** Where the VM's memory and disk came from. */
export type VmOrigin =
  | { readonly kind: "image"; readonly image: string }
  | { readonly kind: "snapshot"; readonly snapshotId: string; readonly snapshotName: string }
  | { readonly kind: "fork"; readonly sourceVmId: string; readonly snapshotId: string };

/** Why a VM stopped running. */
export interface VmExit {
  /**
   * `guest`: powered off from inside. `stopped`: by our stop. `killed`: the process was ended from outside.
   * `crashed`: the hypervisor ended by itself. `lost`: gone while no process watched it, the host's reboot included.
   */
  readonly reason: "guest" | "stopped" | "killed" | "crashed" | "lost";
  readonly at: string;
  readonly detail?: string;
}

/**
 * How far the guest is. `unknown`: it has no agent, so it cannot be told. `booting`: the agent has not answered
 * since the last start. `refreshing`: it answered, its identity is being renewed. `ready`: both done.
 */
type GuestPhase = "unknown" | "booting" | "refreshing" | "ready";

export interface Vm {
  /** 26 characters of A-Z and 2-7. */
  readonly id: string;
  readonly name: string;
  readonly state: VmState;
  readonly hypervisor: Hypervisor;
  readonly config: VmConfig;
  readonly origin: VmOrigin;
  /** The hypervisor process, while there is one. */
  readonly pid?: number;
  readonly socketPath?: string;
  readonly nics: readonly VmNic[];
  readonly disks: readonly VmDisk[];
  /** Ids of snapshots taken of this VM that still exist. */
  readonly snapshotIds: readonly string[];
  readonly guest: GuestPhase;
  /** Changes with every start, clone and restore: the guest before and after are not the same machine. */
  readonly epoch: string;
  readonly firstBooted: boolean;
  readonly createdAt: string;
  readonly updatedAt: string;
  readonly startedAt?: string;
  readonly stoppedAt?: string;
  readonly lastExit?: VmExit;
  /** Memory and disks that are still coming from the registry: until then it depends on the snapshot there. */
  readonly loading?: VmLoading;
  /** Why the VM is in state `error`. */
  readonly problem?: string;
}

export interface VmLoading {
  readonly doneBytes: number;
  readonly totalBytes: number;
  /** Since it was restored its guest has answered, or may have: what it did since may be relied on. */
  readonly hasAnswered: boolean;
  /** Why content does not arrive. */
  readonly problem?: string;
}

/** Where the VM can be reached from this host. */
export interface VmAddress {
  /** Address that stands for the VM: its own (bridge) or its loopback one (user network). */
  readonly ip: string;
  /** True when every port and ICMP reach the guest at `ip`; false when only `forwards` do. */
  readonly routable: boolean;
  readonly forwards: readonly PortForward[];
}

/** Counters since the start of the hypervisor process; absent = this backend cannot tell. */
export interface VmStats {
  readonly at: string;
  readonly cpu: {
    readonly usageNanos: number;
    readonly throttledNanos?: number;
    readonly throttledPeriods?: number;
  };
  readonly memory: {
    /** Resident memory of the hypervisor process, shared pages included. */
    readonly residentBytes: number;
    /** What would be freed if the VM went: private pages of the whole process. */
    readonly privateBytes?: number;
    /** Guest pages that differ from the file the guest's memory is mapped from. */
    readonly guestPrivateBytes?: number;
    /** What the guest itself counts as used. */
    readonly guestUsedBytes?: number;
  };
  readonly disk: {
    /** Allocated on the host for the VM's own layers. */
    readonly allocatedBytes: number;
    /** Size of the VM's own layers as `ls` shows it. */
    readonly apparentBytes: number;
    readonly readBytes?: number;
    readonly writtenBytes?: number;
  };
  /** From the guest's point of view: `received` is what the guest received. */
  readonly network?: { readonly receivedBytes: number; readonly sentBytes: number };
}
