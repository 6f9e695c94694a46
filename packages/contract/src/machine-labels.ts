/** Labels that say which machine of which set a pod is. */
import { label, legacyLabel } from "./keys.ts";
import { readText, type WriteOptions } from "./annotations.ts";
import { isRole, tryParseSlot, type Member, type Role } from "./vm-name.ts";

export interface MachineLabels {
  readonly set: string;
  readonly role: Role;
  /** Slot number of an agent, name of a toolbox. */
  readonly member: Member;
}

export function writeMachineLabels(
  { set, role, member }: MachineLabels,
  options: WriteOptions = {},
): Record<string, string> {
  const written: Record<string, string> = {
    [label.set]: set,
    [label.role]: role,
    [label.slot]: String(member),
    [label.appName]: set,
  };
  if (!options.legacyKeys) return written;
  return {
    ...written,
    [legacyLabel.set]: set,
    [legacyLabel.role]: role,
    [legacyLabel.slot]: String(member),
    [legacyLabel.app]: set,
  };
}

/** Undefined when the pod is no machine of a set, or its labels contradict each other. */
export function readMachineLabels(
  labels: Readonly<Record<string, string>> | undefined,
): MachineLabels | undefined {
  const set = readText(labels, label.set, legacyLabel.set);
  const role = readText(labels, label.role, legacyLabel.role);
  const slot = readText(labels, label.slot, legacyLabel.slot);
  if (set === "" || slot === "" || !isRole(role)) return undefined;
  if (role === "toolbox") return { set, role, member: slot };
  const member = tryParseSlot(slot);
  if (member === undefined || (role === "main") !== (member === 0)) return undefined;
  return { set, role, member };
}
