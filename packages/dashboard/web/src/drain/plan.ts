/** What draining a node does to each machine on it, and how far it is. */
import type { MachineRow, NodeRow, SetRow } from "../../../src/shared/rows.ts";
import { buildKey } from "../live/store.ts";
import { texts } from "../texts.ts";

type DrainOutcome = "moves" | "pinned" | "noNode" | "ownerless" | "rests";

export interface DrainStep {
  readonly machine: MachineRow;
  readonly outcome: DrainOutcome;
}

export interface Installation {
  readonly nodes: readonly NodeRow[];
  readonly machines: readonly MachineRow[];
  readonly sets: ReadonlyMap<string, SetRow>;
}

export function planDrain(node: NodeRow, { nodes, machines, sets }: Installation): DrainStep[] {
  const hasOther = nodes.some(
    (each) => each.name !== node.name && each.ready && !each.unschedulable && each.pool === node.pool,
  );
  return machines
    .filter((machine) => machine.node === node.name)
    .map((machine) => {
      const set = sets.get(buildKey(machine.namespace, machine.set));
      return { machine, outcome: decide(machine, { set, hasOther, node }) };
    });
}

interface Place {
  readonly set: SetRow | undefined;
  readonly hasOther: boolean;
  readonly node: NodeRow;
}

function decide(machine: MachineRow, { set, hasOther, node }: Place): DrainOutcome {
  if (machine.state === "asleep") return "rests";
  if (machine.role === "main" && set?.node === node.name) return "pinned";
  if (machine.set === "") return "ownerless";
  return hasOther ? "moves" : "noNode";
}

export interface DrainProgress {
  readonly machine: MachineRow;
  readonly outcome: DrainOutcome;
  readonly hasLeft: boolean;
  readonly text: string;
}

export interface DrainNow {
  readonly node: string;
  readonly machines: ReadonlyMap<string, MachineRow>;
  /** Why a machine may not be evicted just now, by its uid. */
  readonly held: ReadonlyMap<string, string>;
}

/** A machine of that name on another node, or with another uid, is the one that woke there. */
export function observeDrain(
  plan: readonly DrainStep[],
  { node, machines, held }: DrainNow,
): DrainProgress[] {
  return plan.map(({ machine, outcome }) => {
    const now = machines.get(buildKey(machine.namespace, machine.name));
    if (!now || now.node === "")
      return { machine, outcome, hasLeft: true, text: texts.drain.asleep(now?.message ?? "") };
    if (now.node !== node)
      return { machine, outcome, hasLeft: true, text: texts.drain.elsewhere(now.state, now.node) };
    const reason = held.get(now.uid);
    const text = reason === undefined ? now.message || now.state : texts.drain.held(reason);
    return { machine, outcome, hasLeft: false, text };
  });
}
