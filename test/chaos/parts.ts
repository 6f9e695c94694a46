/** The processes of the platform: its parts by name. They are found, killed, paused and continued here. */
import { findRunning, markedProcesses } from "@cocoon/controlplane";
import { isAlive, signalProcess } from "@cocoon/core";
import { setTimeout } from "node:timers/promises";

export const partNames = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "registry",
  "operator",
  "webhook",
  "colocation",
  "vk-node-1",
  "vk-node-2",
  "supervisor",
] as const;
export type PartName = (typeof partNames)[number];

export const nodeNames = ["cocoon-1", "cocoon-2"] as const;
export type NodeName = (typeof nodeNames)[number];

export function partOfNode(node: NodeName): PartName {
  return node === "cocoon-1" ? "vk-node-1" : "vk-node-2";
}

const deathMs = 5_000;

/** Sends a signal to a part; false when it is not running. A killed part is gone when this returns. */
export async function signalPart(home: string, part: string, signal: NodeJS.Signals): Promise<boolean> {
  const identity = await findRunning(home, part);
  if (identity === undefined || !isAlive(identity) || !signalProcess(identity, signal)) return false;
  if (signal !== "SIGKILL") return true;
  const deadline = performance.now() + deathMs;
  while (isAlive(identity) && performance.now() < deadline) await setTimeout(5);
  return true;
}

export async function findDeadParts(home: string): Promise<PartName[]> {
  const found = await Promise.all(
    partNames.map(async (part) => {
      const identity = await findRunning(home, part);
      return identity && isAlive(identity) ? [] : [part];
    }),
  );
  return found.flat();
}

export function killAllParts(home: string): number {
  const living = markedProcesses(home);
  for (const { identity } of living) signalProcess(identity, "SIGKILL");
  return living.length;
}
