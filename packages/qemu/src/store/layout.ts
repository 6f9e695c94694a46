/**
 * Where everything lies. A VM's and a snapshot's directory is self-contained: files that several of them need (base
 * disks, frozen layers, memory, kernels) are hard links to one immutable inode, so that removing a directory never
 * affects another and nothing has to be counted. Inside, files name each other by relative path.
 *
 * What makes up the machine lies in a directory of its own below (`files-1`, …): putting a VM back to a snapshot makes
 * the next one and then switches over.
 *
 *   <root>/qemu/
 *     open.lock              held while a process opens the store and recovers it
 *     network.lock           held while a new VM gets its addresses, and while those of dead VMs are taken back
 *     vms/<id>/              0700; see `vmFile`
 *     names/<name>           text: the id of the VM that has the name; made exclusively, before the VM
 *     changes/<id>           touched after each change of a VM's record: what watchers watch
 *     snapshots/<id>/        0700; complete when it is here, and immutable
 *     snapshot-names/<name>  text: the id; "/" in a name is written "%2F"
 *     shared/                immutable files made once: empty memory files, firmware
 *     work/<id>/             snapshots being made; what no living process holds is removed
 *     trash/                 what is being removed
 */
import { join } from "node:path";

export interface StoreLayout {
  readonly root: string;
  readonly openLock: string;
  readonly vms: string;
  readonly names: string;
  readonly changes: string;
  readonly snapshots: string;
  readonly snapshotNames: string;
  readonly shared: string;
  readonly work: string;
  readonly trash: string;
}

export function storeLayout(rootDirectory: string): StoreLayout {
  const root = join(rootDirectory, "qemu");
  return {
    root,
    openLock: join(root, "open.lock"),
    vms: join(root, "vms"),
    names: join(root, "names"),
    changes: join(root, "changes"),
    snapshots: join(root, "snapshots"),
    snapshotNames: join(root, "snapshot-names"),
    shared: join(root, "shared"),
    work: join(root, "work"),
    trash: join(root, "trash"),
  };
}

/** Names inside a VM's directory, which is the working directory of its QEMU. */
export const vmFile = {
  record: "vm.json",
  /** The record before the last change, for people: what is left when the newest is damaged. */
  previousRecord: "vm.json.previous",
  lock: "lock",
  /** What is being done to the running guest; absent at rest. */
  intent: "intent.json",
  log: "qemu.log",
  /** Written by QEMU, removed by it when it ends in order: a dead QEMU with a pid file was killed. */
  pid: "qemu.pid",
  /** QMP for commands: used only by who holds the lock. */
  qmp: "qmp.sock",
  /** QMP for events: the first client gets them, others at least learn when QEMU ends. */
  events: "events.sock",
  console: "console.sock",
  consoleLog: "console.log",
  olderConsoleLog: "console.log.1",
  display: "vnc.sock",
  /** Where files are mounted that fill up while the machine runs. */
  lazy: "lazy",
  /** How far they are. */
  loading: "loading.json",
  /** The machine has answered: the rest of its files may come. */
  answered: "answered",
  pageServerLog: "page-server.log",
  agentSocket: (port: number): string => `agent-${port}.sock`,
  agentLock: (port: number): string => `agent-${port}.lock`,
} as const;

/**
 * Names of the files that make up a machine, in a VM's files directory and in a snapshot, beside the disk layers. A
 * registry chooses the layer type by the name: `config.json` vm.config, `memory-ranges` vm.memory, `cidata.img`
 * vm.cidata, `*.qcow2` and `*.raw` disk.qcow2 and disk.raw, all others octet-stream.
 */
export const machineFile = {
  /** What the guest's memory is mapped from, copy-on-write. Never written. */
  memory: "memory-ranges",
  firmware: "firmware.fd",
  firmwareVariables: "variables.fd",
  kernel: "kernel",
  initrd: "initrd",
  /** State of CPU and devices without memory. */
  deviceState: "device-state",
  seed: "cidata.img",
  /** State with all memory, for machines that cannot be saved page by page. */
  stream: "machine-stream",
  /** What the machine needed first when it was last woken. */
  workingSet: "working-set.json",
} as const;

/** What is known about a snapshot on this host only: its id, name and time. */
export const snapshotRecordFile = "snapshot.json";
/** What the snapshot is: the machine, its disks, what it takes to go on. Travels with it. */
export const snapshotDescriptionFile = "config.json";

/** Layer `number` of a disk; 0 is the base. */
export function layerFile(disk: string, number: number, format: "qcow2" | "raw"): string {
  return `${disk}-${number}.${format}`;
}

/** The number of a layer's file; 0 for files that have none. Numbers only grow, also when layers are merged. */
export function layerNumber(file: string): number {
  return Number(/-(\d+)\.\w+$/.exec(file)?.[1] ?? 0);
}
