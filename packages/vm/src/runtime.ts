/**
 * The port to a VM engine. Backends: QEMU (built in), an external `cocoon` command, and a fake for tests; all pass
 * the same contract suite (`@cocoon/vm/testing`).
 *
 * Rules for every method:
 * - A `ref` is a VM's or snapshot's exact id, exact name, or a prefix of the id of at least 3 characters. No match is
 *   `notFound`, several are `conflict`. "Could not ask" is `unavailable` or `timeout`, never `notFound`.
 * - What is legal in which state stands in `state.ts`; an illegal action is `conflict` and changes nothing.
 * - An operation that fails or is aborted leaves either the old state or the new one; what it had half made is
 *   removed at once, or at the next open when this process dies. Repeating it is always safe.
 * - Bad input is `invalid` with the field named; too little disk is `outOfSpace`; an input that exists but does not fit
 *   this host (another CPU, a newer format) is `preconditionFailed`; a request that this backend cannot fulfil is
 *   `notSupported`.
 * - VMs outlive the runtime object and its process. Disposing it lets go of them; it never stops them.
 */
import type { Abortable } from "@cocoon/core";
import type { Duplex, Readable, Writable } from "node:stream";
import type { Image, ImageGcReport } from "./image-store.ts";
import type {
  CloneOptions,
  CloneSpec,
  ExecRequest,
  ExportOptions,
  ForkSpec,
  GcOptions,
  ImportDirectoryOptions,
  ImportOptions,
  PullOptions,
  RemoteCloneSpec,
  RemoveVmOptions,
  RunSpec,
  SaveOptions,
  StopVmOptions,
  TtySize,
} from "./requests.ts";
import type { SaveReport, Snapshot } from "./snapshot.ts";
import type { Hypervisor, Vm, VmAddress, VmExit, VmStats } from "./vm.ts";

export interface VmRuntime extends AsyncDisposable {
  /** What this engine is and can do. Cheap, repeatable. */
  describe(options: Abortable): Promise<RuntimeDescription>;

  /**
   * Makes a VM from an image and boots it (unless `start` is false); resolves when the guest's CPU runs, long before
   * the guest is usable: see `waitReady`. The image must be local. Throws `alreadyExists` when the name is taken,
   * `notFound` for an unknown image, `invalid` for a size below the minimum.
   */
  run(spec: RunSpec, options: Abortable): Promise<Vm>;

  /**
   * Makes a VM that goes on from a snapshot; resolves when the guest's CPU runs again. The clone gets its own
   * identity before it counts as ready. Sizes may grow where the backend can, never shrink. Throws `alreadyExists`,
   * `notFound` (snapshot), `preconditionFailed` (snapshot does not fit this host).
   */
  clone(spec: CloneSpec, options: CloneOptions): Promise<Vm>;

  /**
   * Makes a VM that goes on from a snapshot of a registry; the guest runs before its memory and disks are here, and
   * they follow in the background (`Vm.loading`). Absent, or `notSupported`, where the engine, this host or the
   * snapshot's form cannot. Until it is all here, a VM that ends needs the registry to be started again.
   */
  cloneRemote?(spec: RemoteCloneSpec, options: CloneOptions): Promise<Vm>;

  /**
   * Makes a VM that goes on from where another one is now; both go on. The source is paused as for a save, and
   * resumed whatever happens. Legal while the source runs or is paused.
   */
  fork(spec: ForkSpec, options: Abortable): Promise<Vm>;

  /** Boots a VM that is not running, from its disk. A running one stays as it is: success. */
  start(ref: string, options: Abortable): Promise<Vm>;

  /**
   * Ends the guest: by power button, and by force after `timeoutMs` (default 30 s; 0 or `force` = at once). A VM that
   * does not run stays as it is: success. Repeatable.
   */
  stop(ref: string, options: StopVmOptions): Promise<Vm>;

  /** Freezes the guest's CPU. Repeatable. */
  pause(ref: string, options: Abortable): Promise<Vm>;

  /** Lets a paused guest go on. Repeatable. */
  resume(ref: string, options: Abortable): Promise<Vm>;

  /** Presses the reset button: the guest boots again in place, same process, same network. */
  reset(ref: string, options: Abortable): Promise<Vm>;

  /**
   * Removes the VM, its disks and its network; frees the name before it resolves. A VM that runs needs `force`, which
   * kills it at once. Its snapshots stay. An unknown ref is `notFound`, which a caller that wants it gone takes for success.
   */
  remove(ref: string, options: RemoveVmOptions): Promise<void>;

  /**
   * Puts the VM back to one of its own snapshots: same id, name, network, another epoch. Legal while it runs, and
   * while it is stopped. What it did since the snapshot is lost. `conflict` when the snapshot is another VM's.
   */
  restore(ref: string, snapshotRef: string, options: Abortable): Promise<Vm>;

  /** All VMs, oldest first. States are true: a dead process is never reported as running. */
  list(options: Abortable): Promise<readonly Vm[]>;

  /** One VM. */
  inspect(ref: string, options: Abortable): Promise<Vm>;

  /**
   * Everything that happens to VMs from now on, also when another process did it: first `listed` for each VM there
   * is, then `synced`, then changes. A dead VM is told within 200 ms, from the process and not by polling. Ends when
   * the signal aborts, and never otherwise.
   */
  watch(options: Abortable): AsyncIterable<VmEvent>;

  /**
   * Resolves once the guest answers and has its own identity (hostname, machine id, addresses, clock, fresh
   * randomness). At once when it is already so; `notSupported` when the guest has no agent; `conflict` when it stops
   * running meanwhile.
   */
  waitReady(ref: string, options: Abortable): Promise<Vm>;

  /** Where the VM can be reached; undefined while it is unknown. */
  address(ref: string, options: Abortable): Promise<VmAddress | undefined>;

  /** A connection to a TCP port of the guest, forwarded on the way where the network needs it. Destroy it to hang up. */
  dial(ref: string, port: number, options: Abortable): Promise<Duplex>;

  /** Resource usage now. Legal while the VM runs or is paused. */
  stats(ref: string, options: Abortable): Promise<VmStats>;

  /**
   * Starts a program in the guest through the agent; needs no network. `notSupported` without agent, `timeout` when
   * it does not answer. The signal covers the start only; dispose the process to end it.
   */
  exec(ref: string, request: ExecRequest, options: Abortable): Promise<GuestProcess>;

  /**
   * The serial console, both ways. Several may be open at once; all see the output, input is mixed. Destroy to
   * detach; the stream ends when the VM does.
   */
  openConsole(ref: string, options: Abortable): Promise<Duplex>;

  /** What the console has shown so far, oldest first, bounded by `tailBytes` (default and limit: all that is kept). */
  readConsole(ref: string, options: Abortable & { readonly tailBytes?: number }): Promise<Buffer>;

  /** The VNC stream (RFB) of a VM made with `display`. `notSupported` for others. Destroy to detach. */
  openDisplay(ref: string, options: Abortable): Promise<Duplex>;

  readonly snapshots: VmSnapshots;
  readonly images: VmImages;

  /** Removes what nothing refers to: unused images, leftovers of dead processes, and snapshots beyond the given limits. */
  gc(options: GcOptions): Promise<GcReport>;
}

export interface VmSnapshots {
  /**
   * Saves memory, devices and disks of a running or paused VM; the guest is frozen only for `pausedMs`. If this
   * process dies in the middle, the guest goes on (at the latest at the next open), and no snapshot is visible.
   * `alreadyExists` when the name is taken.
   */
  save(vmRef: string, options: SaveOptions): Promise<SaveReport>;
  /** All snapshots, oldest first, or only those taken of one VM. */
  list(options: Abortable & { readonly vmRef?: string }): Promise<readonly Snapshot[]>;
  inspect(ref: string, options: Abortable): Promise<Snapshot>;
  /** Removes it. VMs that were cloned from it are not affected. */
  remove(ref: string, options: Abortable): Promise<void>;
  /** The snapshot as a tar archive, self-contained, sparse files as PAX records. Destroy the stream to give up. */
  export(ref: string, options: ExportOptions): Promise<Readable>;
  /** Reads such an archive; the snapshot gets a new id and is visible only when complete and checked. */
  import(archive: Readable, options: ImportOptions): Promise<Snapshot>;
  /** The files that make up the snapshot, to read only, while `use` runs: a removal meanwhile does not disturb. */
  withFiles<T>(ref: string, use: (files: SnapshotFiles) => Promise<T>, options: Abortable): Promise<T>;
  /**
   * What a running VM has in memory and on its disks just now, for sending it in advance: not one state of it, and nothing to
   * restore. Undefined, without a call of `use`, when less than `leastBytes` would be new, or the VM is saved in another way.
   */
  withLiveFiles?<T>(
    vmRef: string,
    use: (files: LiveFiles) => Promise<T>,
    options: Abortable & { readonly leastBytes: number },
  ): Promise<T | undefined>;
  /** Makes a snapshot of files that lie in a directory, `snapshot.json` among them. */
  importDirectory(directory: string, options: ImportDirectoryOptions): Promise<Snapshot>;
}

export interface VmImages {
  /** Makes the image local; compared by digest, so that an unchanged one is not fetched again. */
  pull(ref: string, options: PullOptions): Promise<Image>;
  /** Makes an image of the bytes given: a disk (qcow2 or raw, gzip unwrapped) or a container layer (tar). */
  import(name: string, sources: readonly Readable[], options: Abortable): Promise<Image>;
  list(options: Abortable): Promise<readonly Image[]>;
  /** By name or digest. `notFound`: not local. */
  inspect(ref: string, options: Abortable): Promise<Image>;
  /** Removes the name; VMs and snapshots that stand on the image are not affected. */
  remove(ref: string, options: Abortable): Promise<void>;
}

export interface RuntimeDescription {
  /** Which program keeps the VMs: another one has no knowledge of them. */
  readonly engine: "qemu" | "cocoon" | "cocoon-node";
  readonly hypervisor: Hypervisor;
  /** Version of the engine, e.g. "7.2.22". */
  readonly version: string;
  readonly accelerator?: "kvm" | "tcg";
  /** Snapshots move between hosts of one class only. */
  readonly cpuClass?: string;
  readonly networks: readonly string[];
  readonly minimumMemoryBytes: number;
  readonly minimumStorageBytes: number;
  readonly can: {
    readonly pause: boolean;
    readonly reset: boolean;
    readonly exec: boolean;
    /** Programs on a terminal. */
    readonly tty: boolean;
    readonly display: boolean;
    readonly forward: boolean;
    readonly restoreStopped: boolean;
    /** False: a save always lets the guest go on. Absent means true. */
    readonly saveFrozen?: boolean;
    /** False: a clone reads the files of its snapshot while it runs, so the snapshot must stay. Absent means true. */
    readonly cloneStandsAlone?: boolean;
    /** Sizes that a clone may have larger than its snapshot. */
    readonly cloneSizes: readonly ("cpus" | "memoryBytes" | "storageBytes")[];
    /** A VM can go on from a snapshot of a registry before its content is here. Absent means false. */
    readonly cloneRemote?: boolean;
    /** macOS guests run here. Absent means false. */
    readonly macos?: boolean;
  };
  /** Why `cloneRemote` is not possible here, where it was asked for. */
  readonly whyNotRemote?: string;
  /** Where the VM records live, for `df`. */
  readonly rootDirectory: string;
}

export interface SnapshotFiles {
  readonly snapshot: Snapshot;
  /** The content of `snapshot.json` as an archive carries it. */
  readonly envelope: Readonly<Record<string, unknown>>;
  readonly files: readonly SnapshotFile[];
}

export type LiveFiles = Omit<SnapshotFiles, "snapshot">;

interface SnapshotFile {
  /** Flat name inside the snapshot. */
  readonly name: string;
  readonly path: string;
  readonly sizeBytes: number;
  readonly mode: number;
  /** Where data is; what lies between reads as zero. Absent = all of it. */
  readonly dataRanges?: readonly { readonly offset: number; readonly length: number }[];
}

export interface GuestProcess extends AsyncDisposable {
  readonly stdin: Writable;
  readonly stdout: Readable;
  /** Ends at once when there is a tty: everything comes by stdout. */
  readonly stderr: Readable;
  /** Resolves when the program has ended; rejects when the VM or the channel was lost. */
  readonly exited: Promise<GuestExit>;
  resize(size: TtySize): void;
  signal(name: "TERM" | "INT" | "HUP" | "KILL" | "QUIT"): void;
}

export interface GuestExit {
  /** Exit code, or 128 + signal number. */
  readonly code: number;
  readonly signal?: number;
}

export type VmEvent =
  /** A VM that was there when the watch began, or when it had to begin again. */
  | { readonly kind: "listed"; readonly vm: Vm }
  | { readonly kind: "synced" }
  | { readonly kind: "added"; readonly vm: Vm }
  /** The guest's CPU runs: booted, cloned, restored or resumed. */
  | { readonly kind: "started"; readonly vm: Vm }
  | { readonly kind: "paused"; readonly vm: Vm }
  | { readonly kind: "exited"; readonly vm: Vm; readonly exit: VmExit }
  | { readonly kind: "ready"; readonly vm: Vm }
  | { readonly kind: "networkUp"; readonly vm: Vm; readonly address: VmAddress }
  /** Anything else about it changed. */
  | { readonly kind: "changed"; readonly vm: Vm }
  /** Carries the last known record. */
  | { readonly kind: "removed"; readonly vm: Vm };

export interface GcReport {
  readonly images: ImageGcReport;
  readonly removedSnapshots: readonly Snapshot[];
  readonly removedDirectories: readonly string[];
}
