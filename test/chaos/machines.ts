/** Machines as the host sees them: QEMU processes and the stores of both nodes. Read without any part of the product. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { join } from "node:path";
import { nodeNames, type NodeName } from "./parts.ts";

export interface MachineProcess {
  readonly pid: number;
  readonly node: NodeName;
  readonly vmId: string;
  readonly vmName: string;
}

export interface StoredMachine {
  readonly node: NodeName;
  readonly vmId: string;
  readonly vmName: string;
}

function storeDirectory(home: string, node: NodeName): string {
  return join(home, "parts", node === "cocoon-1" ? "node-1" : "node-2", "qemu");
}

/** QEMU processes below the state directory, zombies left out. */
export function listMachineProcesses(home: string): MachineProcess[] {
  return listProcesses(home, (command) => command.startsWith("qemu-system"));
}

/** Page servers: they bring the content of machines that were woken lazily, each in the directory of its VM. */
export function listPageServers(home: string): MachineProcess[] {
  return listProcesses(home, (command) => !command.startsWith("qemu-system"));
}

function listProcesses(home: string, matches: (command: string) => boolean): MachineProcess[] {
  return readdirSync("/proc")
    .filter((entry) => /^\d+$/.test(entry))
    .flatMap((pid) => readMachineProcess(home, { pid, matches }));
}

function readMachineProcess(
  home: string,
  { pid, matches }: { readonly pid: string; readonly matches: (command: string) => boolean },
): MachineProcess[] {
  try {
    if (!matches(readFileSync(`/proc/${pid}/comm`, "utf8"))) return [];
    const directory = readlinkSync(`/proc/${pid}/cwd`);
    const node = nodeNames.find((each) => directory.startsWith(`${storeDirectory(home, each)}/vms/`));
    if (!node) return [];
    const vmId = directory.slice(`${storeDirectory(home, node)}/vms/`.length).split(/[/ ]/)[0] ?? "";
    return [{ pid: Number(pid), node, vmId, vmName: readVmName(home, node, vmId) }];
  } catch {
    return []; // it ended while we looked
  }
}

function readVmName(home: string, node: NodeName, vmId: string): string {
  try {
    const text = readFileSync(join(storeDirectory(home, node), "vms", vmId, "vm.json"), "utf8");
    return (JSON.parse(text) as { name: string }).name;
  } catch {
    return `(record of ${vmId} is missing)`;
  }
}

/** What the nodes keep on disk, running or not. */
export function listStoredMachines(home: string): StoredMachine[] {
  return nodeNames.flatMap((node) => {
    const names = join(storeDirectory(home, node), "names");
    if (!existsSync(names)) return [];
    return readdirSync(names).map((vmName) => ({
      node,
      vmName,
      vmId: readFileSync(join(names, vmName), "utf8").trim(),
    }));
  });
}

export function killProcess(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // it ended before
  }
}
