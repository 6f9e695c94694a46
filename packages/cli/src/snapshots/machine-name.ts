/** Resolves a name that a user typed to the machine whose snapshots are meant. Pure. */
import { maxSlot, podVmName, vmName } from "@cocoon/contract";
import { Fault } from "@cocoon/core/fault";

export interface NamedMachine {
  /** Its repository in the registry. */
  readonly vm: string;
  readonly set: string | undefined;
  /** Undefined for toolboxes and machines without a set. */
  readonly slot: number | undefined;
}

/** A set's name (its main agent), a pod's, or a machine's own (`vk-<namespace>-…`). */
export function readMachineName(name: string, namespace: string, sets: readonly string[]): NamedMachine {
  const prefix = `vk-${namespace}-`;
  const pod = name.startsWith(prefix) ? name.slice(prefix.length) : name;
  if (!name.startsWith(prefix) && sets.includes(name))
    return { vm: vmName({ namespace, set: name }, 0), set: name, slot: 0 };
  const dash = pod.lastIndexOf("-");
  const slot = /^(?:0|[1-9]\d{0,9})$/.test(pod.slice(dash + 1)) ? Number(pod.slice(dash + 1)) : undefined;
  const owner = sets
    .filter((set) => pod.startsWith(`${set}-`))
    .sort((left, right) => right.length - left.length)[0];
  const set = slot !== undefined && dash > 0 ? pod.slice(0, dash) : owner;
  if (slot !== undefined && slot > maxSlot)
    throw new Fault("badRequest", `"${name}" ends in a number that no slot has`);
  return { vm: podVmName(namespace, pod), set, slot };
}
