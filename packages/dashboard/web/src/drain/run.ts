/** Empties a node as `cocoonctl drain` does: no new machines, then an eviction of each; what a disruption budget holds is tried again. */
import type { MachineRow } from "../../../src/shared/rows.ts";
import { ApiError, kube, mergePatch } from "../api/client.ts";
import { nodePath, podPath } from "../api/paths.ts";

const everyMs = 3_000;

export interface DrainRun {
  readonly node: string;
  readonly listMachines: () => readonly MachineRow[];
  /** Why some may not be evicted just now, by uid. */
  readonly onHeld: (held: ReadonlyMap<string, string>) => void;
  readonly signal: AbortSignal;
}

/** Resolves when no machine is left on the node, or when the signal is aborted. */
export async function drainNode({ node, listMachines, onHeld, signal }: DrainRun): Promise<void> {
  await cordonNode(node, true);
  const evicted = new Set<string>();
  while (!signal.aborted) {
    const left = listMachines().filter((machine) => machine.node === node);
    if (left.length === 0) return;
    const held = new Map<string, string>();
    for (const machine of left.filter(({ uid }) => !evicted.has(uid))) {
      const reason = await evict(machine);
      if (reason === "") evicted.add(machine.uid);
      else held.set(machine.uid, reason);
    }
    onHeld(held);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}

export function cordonNode(name: string, on: boolean): Promise<unknown> {
  return mergePatch(nodePath(name), { spec: { unschedulable: on ? true : null } });
}

/** Why it is not evicted now; "" when it is. */
async function evict({ namespace, name, uid }: MachineRow): Promise<string> {
  const body = {
    apiVersion: "policy/v1",
    kind: "Eviction",
    metadata: { namespace, name },
    deleteOptions: { preconditions: { uid } },
  };
  try {
    await kube(podPath(namespace, name, "eviction"), { method: "POST", body });
    return "";
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    if (error.status === 429) return error.message;
    // It went meanwhile, or another pod has its name.
    if (error.status === 404 || error.status === 409) return "";
    throw error;
  }
}
