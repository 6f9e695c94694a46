/** What must be true, whatever fails: the sets that were requested and what their machines must hold. Plain data. */
import type { NodeName } from "./parts.ts";

export interface MachineModel {
  readonly pod: string;
  asleep: boolean;
  /** Last token that was written, on disk and in memory. Empty before the first. */
  token: string;
  /** Before its first token: the pod that it was forked from, whose content its disk must hold. */
  forkedFrom?: string;
  bootId: string;
  counter: number;
  /** The memory may be gone (the machine was ended by force while it was awake); its disk may not. */
  memoryMayBeLost: boolean;
}

export interface SetModel {
  readonly name: string;
  replicas: number;
  suspended: boolean;
  /** Where the main agent is pinned. */
  node: NodeName | undefined;
  /** Counts changes of its template. */
  revision: number;
  /** Its main agent was started from a snapshot; a changed template would start it from there again. */
  isRestored: boolean;
  machines: Record<string, MachineModel>;
}

export interface Model {
  sets: Record<string, SetModel>;
  /** Machines whose set was deleted and that left a snapshot `latest`. */
  ended: Record<string, MachineModel>;
  /** Changes whenever a machine begins or ends: a copy of etcd is only put back within one era. */
  era: number;
  sequence: number;
}

export function newModel(): Model {
  return { sets: {}, ended: {}, era: 0, sequence: 0 };
}

export function newMachine(pod: string): MachineModel {
  return { pod, asleep: false, token: "", bootId: "", counter: 0, memoryMayBeLost: false };
}

export function computePodNames(set: Pick<SetModel, "name" | "replicas">): string[] {
  return Array.from({ length: set.replicas + 1 }, (_unused, slot) => `${set.name}-${slot}`);
}

export function computeVmName(pod: string): string {
  return `vk-default-${pod}`;
}

export function isAsleep(set: SetModel, machine: MachineModel): boolean {
  return set.suspended || machine.asleep;
}

export function listMachines(model: Model): { set: SetModel; machine: MachineModel }[] {
  return Object.values(model.sets).flatMap((set) =>
    Object.values(set.machines).map((machine) => ({ set, machine })),
  );
}
