/** What callers of the runtime request: machines to make, and options of what is done to them. */
import type { Abortable } from "@cocoon/core";
import type { Snapshot } from "./snapshot.ts";
import type { GuestOs, Hypervisor } from "./vm.ts";

export interface NetworkSpec {
  /** Named network; absent = default. */
  readonly network?: string;
  /** Default 1; 0 = none. */
  readonly nics?: number;
  /** Guest ports to be reachable beside SSH, where the network needs telling. */
  readonly ports?: readonly { readonly protocol: "tcp" | "udp"; readonly guestPort: number }[];
  /** The guest may not reach the outside. */
  readonly isolated?: boolean;
  readonly queueSize?: number;
  /** The pod behind the VM, for networks that know pods. */
  readonly pod?: { readonly namespace: string; readonly name: string; readonly uid: string };
  /** Ports of the host that lead to the guest, where the network offers it. */
  readonly hostPorts?: readonly {
    readonly hostPort: number;
    readonly guestPort: number;
    readonly protocol: "tcp" | "udp";
    readonly hostIp?: string;
  }[];
  /** Limits, where the network offers them; ingress is what the guest receives. */
  readonly bandwidth?: { readonly ingressBitsPerSecond?: number; readonly egressBitsPerSecond?: number };
  /** How the guest resolves names, where the network gives it an address of its own. */
  readonly dns?: { readonly servers: readonly string[]; readonly searches: readonly string[] };
}

export interface CpuPolicy {
  /** Share against others, 1..10000, default 100. */
  readonly weight?: number;
  readonly quotaMicros?: number;
  readonly periodMicros?: number;
}

/** What every way to make a VM takes. */
interface NewVmSpec extends NetworkSpec {
  readonly name: string;
  readonly storageBytes?: number;
  readonly cpuPolicy?: CpuPolicy;
  readonly labels?: Readonly<Record<string, string>>;
}

interface SizedVmSpec extends NewVmSpec {
  readonly cpus?: number;
  readonly memoryBytes?: number;
  /** False: disks go through the host's page cache, where the engine can choose. */
  readonly directIo?: boolean;
}

export interface RunSpec extends SizedVmSpec {
  readonly image: string;
  readonly os?: GuestOs;
  readonly dataDisks?: readonly DataDisk[];
  readonly login?: GuestLogin;
  /** Give it a screen, reachable through `openDisplay`. Saving such a VM freezes it longer. */
  readonly display?: boolean;
  /** Default true; false leaves it in state `created`. */
  readonly start?: boolean;
  /** Hypervisor to use, where the engine has several. */
  readonly backend?: Hypervisor;
}

/** Who may log in, and what programs see; applied by the guest's first boot. The password never reaches an argv. */
export interface GuestLogin {
  readonly user?: string;
  readonly password?: string;
  readonly sshKeys?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
}

export interface DataDisk {
  readonly name: string;
  readonly sizeBytes: number;
  readonly fsType: "ext4" | "none";
  readonly mountPoint?: string;
}

/** How a clone gets at its memory; an engine that knows only one way takes that. */
export type RestoreMode = "copy" | "ondemand" | "mmap";

export interface CloneSpec extends SizedVmSpec {
  readonly snapshot: string;
  readonly restoreMode?: RestoreMode;
}

/** A snapshot in a registry that the engine was given access to. */
interface RemoteSnapshot {
  readonly repository: string;
  readonly digest: string;
  readonly snapshotId: string;
}

/** `storageBytes` less than the snapshot's own is not applied: what the snapshot has is known only while it is read. */
export interface RemoteCloneSpec extends Omit<CloneSpec, "snapshot" | "restoreMode"> {
  readonly remote: RemoteSnapshot;
}

/** How a VM is made from a snapshot. */
export interface CloneOptions extends Abortable {
  /**
   * The last check before the guest runs: called once all else is done, and the guest runs as soon as it resolves. When it
   * rejects, the guest never runs, what was made is removed, the snapshot stays, and the call rejects with that error. A
   * command that starts its guests by itself is called after it.
   */
  readonly beforeRun?: (options: Abortable) => Promise<void>;
}

export interface ForkSpec extends NewVmSpec {
  /** Ref of the VM to fork. */
  readonly source: string;
}

export interface StopVmOptions extends Abortable {
  readonly timeoutMs?: number;
  readonly force?: boolean;
}

export interface RemoveVmOptions extends Abortable {
  readonly force?: boolean;
}

export interface SaveOptions extends Abortable {
  readonly name?: string;
  readonly description?: string;
  /** Default true. False leaves the VM paused: what was saved is exactly where it stands. */
  readonly resume?: boolean;
  /** Saves the disks alone of a VM that does not run, as they are. A VM made from that boots. */
  readonly disksOnly?: boolean;
}

export interface ExportOptions extends Abortable {
  readonly gzip?: boolean;
}

export interface ImportOptions extends Abortable {
  readonly name?: string;
  readonly description?: string;
}

export interface ImportDirectoryOptions extends ImportOptions {
  /** Take the files over instead of copying them, and remove the directory. No other process may write to them. */
  readonly consume?: boolean;
}

export interface PullOptions extends Abortable {
  /** Fetch again even when a copy is there. */
  readonly force?: boolean;
  readonly onProgress?: (progress: { readonly doneBytes: number; readonly totalBytes?: number }) => void;
}

export interface GcOptions extends Abortable {
  /** Which local snapshots go. Absent: none. */
  readonly snapshots?: SnapshotLimits;
}

/** Least recently used snapshots go first. VMs that were cloned from one are not affected. */
export interface SnapshotLimits {
  /** What all of them may take together. */
  readonly maxBytes?: number;
  /** Those not used for so long go in any case. */
  readonly maxAgeMs?: number;
  /** Never removed. */
  readonly isPinned: (snapshot: Snapshot) => boolean;
}

export interface ExecRequest {
  readonly argv: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly user?: string;
  readonly tty?: TtySize;
  /** Whether the caller has input; without it the program reads end of file. */
  readonly stdin?: boolean;
}

export interface TtySize {
  readonly rows: number;
  readonly columns: number;
}
