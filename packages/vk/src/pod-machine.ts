/** A pod of this node, read once at the boundary: the machine, and what only the kubelet reads of it. */
import { annotation, findSandboxOwner, isSandboxVmName, readFlag, readText } from "@cocoon/contract";
import { podSnapshotAnnotation, sandboxHash } from "@cocoon/contract/agent-sandbox";
import { Fault, isFault, tryParseJson } from "@cocoon/core";
import type { Pod } from "@cocoon/kubelet";
import { readMachine, type Machine } from "@cocoon/machine";
import * as z from "zod";

export interface PodMachine extends Machine {
  /** Empty: not set; what the registry holds under the image's name decides. */
  readonly mode: "clone" | "run" | "static" | "";
  readonly isMacos: boolean;
  readonly cloneFromDir: string;
  readonly probePort: number | undefined;
  /** It may run before its memory and disks are on the node; default true. */
  readonly lazyWake: boolean;
  /** Variables that the guest is given while it runs; undefined when there are none. */
  readonly env: GivenEnvironment | undefined;
  /** Name of a PodSnapshot that is to be made of the running machine; "" when there is none, or it was made. */
  readonly snapshotRequest: string;
  /** Name of the PodSnapshot that the machine is to be set back to before it wakes; "" when there is none, or it was. */
  readonly rewindTo: string;
  /** It stands still from when it is ready. */
  readonly pause: boolean;
  /** It does, or did a moment ago. */
  readonly paused: boolean;
  /** The pod belongs to a Sandbox, and the machine is named after one: this, or the one that it took the pod over from. */
  readonly ofSandbox: boolean;
}

interface GivenEnvironment {
  readonly values: Readonly<Record<string, string>>;
  readonly hash: string;
  /** The guest has them. */
  readonly applied: boolean;
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
    env: readEnvironment(annotations),
    snapshotRequest: readSnapshotRequest(annotations),
    rewindTo: readRewind(annotations),
    pause: readFlag(annotations, annotation.pause),
    paused: readFlag(annotations, annotation.paused),
    ofSandbox: isOfSandbox(pod, machine.vm.vmName),
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

const environmentSchema = z.record(z.string().regex(/^[A-Za-z_][A-Za-z0-9_]*$/), z.string());

function readEnvironment(annotations: Pod["metadata"]["annotations"]): GivenEnvironment | undefined {
  const text = readText(annotations, annotation.env);
  if (text === "") return undefined;
  const read = environmentSchema.safeParse(tryParseJson(text));
  if (!read.success) throw new Fault("invalid", `${annotation.env}: must be a JSON object of texts by name`);
  const hash = sandboxHash(text);
  return { values: read.data, hash, applied: readText(annotations, annotation.envApplied) === hash };
}

function isOfSandbox(pod: Pod, vmName: string): boolean {
  return findSandboxOwner(pod) !== undefined && isSandboxVmName(pod.metadata.namespace ?? "", vmName);
}

function readSnapshotRequest(annotations: Pod["metadata"]["annotations"]): string {
  const name = readText(annotations, annotation.snapshotRequest);
  return readText(annotations, annotation.snapshotTaken).startsWith(`${name}@`) ? "" : name;
}

function readRewind(annotations: Pod["metadata"]["annotations"]): string {
  const name = readText(annotations, podSnapshotAnnotation.name);
  return name === readText(annotations, annotation.rewoundTo) ? "" : name;
}

function readPort(text: string): number | undefined {
  if (text === "") return undefined;
  const port = Number(text);
  if (!/^\d{1,5}$/.test(text) || port < 1 || port > 65_535)
    throw new Fault("invalid", `${annotation.probePort}: "${text.slice(0, 40)}" is not a port`);
  return port;
}
