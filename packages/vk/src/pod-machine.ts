/** A pod of this node, read once at the boundary: the machine, and what only the kubelet reads of it. */
import { annotation, readText } from "@cocoon/contract";
import { Fault, isFault } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { readMachine, type Machine } from "@cocoon/machine";

export interface PodMachine extends Machine {
  /** Empty: not set; what the registry holds under the image's name decides. */
  readonly mode: "clone" | "run" | "static" | "";
  readonly isMacos: boolean;
  readonly cloneFromDir: string;
  readonly probePort: number | undefined;
  /** It may run before its memory and disks are on the node; default true. */
  readonly lazyWake: boolean;
}

/** Throws `invalid` when the pod is not a machine or has malformed annotations. */
export function readPodMachine(pod: Pod): PodMachine {
  const { namespace, name, annotations } = pod.metadata;
  const machine = readMachine(pod);
  if (machine.vm.vmName === "")
    throw new Fault("invalid", `pod ${namespace}/${name} missing ${annotation.vmName} annotation`);
  return {
    ...machine,
    mode: readMode(machine.vm.mode),
    isMacos: machine.vm.os.toLowerCase() === "macos",
    cloneFromDir: readText(annotations, annotation.cloneFromDir),
    probePort: readPort(machine.vm.probePort),
    lazyWake: readText(annotations, annotation.lazyWake) !== "false",
  };
}

export function isMachine(pod: Pod): boolean {
  try {
    readPodMachine(pod);
    return true;
  } catch (error) {
    if (isFault(error, "invalid")) return false;
    throw error;
  }
}

function readMode(text: string): PodMachine["mode"] {
  const mode = text.toLowerCase();
  if (mode === "" || mode === "clone" || mode === "run" || mode === "static") return mode;
  throw new Fault("invalid", `${annotation.mode}: "${text.slice(0, 40)}" is none of clone, run, static`);
}

function readPort(text: string): number | undefined {
  if (text === "") return undefined;
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535)
    throw new Fault("invalid", `${annotation.probePort}: "${text.slice(0, 40)}" is not a port`);
  return port;
}
