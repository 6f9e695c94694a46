/** Chooses the faults of a step and when they occur. */
import { computePodNames, type Model } from "./model.ts";
import { nodeNames, partNames, partOfNode } from "./parts.ts";
import { chance, oneOf, pick, type Random, type Weighted } from "./random-choice.ts";
import { registryFaults, type Milestone } from "./registry-proxy.ts";
import type { Fault, Operation, PlacedFault } from "./steps.ts";

const hour = 3_600_000;
/** Longer than a node may be silent before it counts as not ready. */
const nodeSilentMs = 50_000;

const hibernating: ReadonlySet<string> = new Set([
  "suspend",
  "hibernate",
  "schedule",
  "migrate",
  "drain",
  "delete",
]);
const waking: ReadonlySet<string> = new Set(["resume", "wake", "restore", "clone", "migrate", "drain"]);

export interface FaultOptions {
  readonly random: Random;
  readonly count: number;
  readonly isAllowed: (fault: Fault) => boolean;
}

export function generateFaults(
  model: Model,
  operations: readonly Operation[],
  { random, count, isAllowed }: FaultOptions,
): PlacedFault[] {
  const found: PlacedFault[] = [];
  while (found.length < count) {
    const onlyOnce = found.some(({ kind }) => kind === "powerCut");
    const choices = listFaults(model, random).filter(
      ({ value }) => isAllowed(value) && !(onlyOnce && value.kind === "powerCut"),
    );
    const fault = pick(random, choices);
    if (!fault) break;
    found.push({ ...fault, ...choosePlace(operations, random) });
  }
  return found;
}

/** At a milestone of a hibernate or wake that an operation leads to, or at any moment. */
function choosePlace(operations: readonly Operation[], random: Random): Pick<PlacedFault, "afterMs" | "on"> {
  const passed: Milestone[] = [
    ...(operations.some(({ kind }) => hibernating.has(kind)) ? (["upload", "push", "seal"] as const) : []),
    ...(operations.some(({ kind }) => waking.has(kind)) ? (["pull", "blob", "drop"] as const) : []),
  ];
  if (operations.length === 0) return { afterMs: 0 };
  const afterMs = Math.round(random() * 6_000);
  if (passed.length === 0 || chance(random, 0.5)) return { afterMs };
  return { afterMs: Math.round(afterMs / 12), on: oneOf(random, passed) };
}

function listFaults(model: Model, random: Random): Weighted<Fault>[] {
  const pods = Object.values(model.sets).flatMap((set) => computePodNames(set));
  const forMs = Math.round(500 + random() * (chance(random, 0.15) ? 15_000 : 5_000));
  const silent = partOfNode(oneOf(random, nodeNames));
  const clockPart = oneOf(random, ["vk-node-1", "vk-node-2", "operator", "registry"] as const);
  const offsetMs = oneOf(random, [-24, -1, 1, 24]) * hour;
  return [
    { weight: 14, value: { kind: "kill", part: oneOf(random, partNames) } },
    { weight: 7, value: { kind: "pause", part: oneOf(random, partNames), forMs } },
    { weight: 0.2, value: { kind: "pause", part: silent, forMs: nodeSilentMs } },
    { weight: 4, value: { kind: "killGuest", pod: oneOf(random, pods) } },
    { weight: 3, value: { kind: "pauseGuest", pod: oneOf(random, pods), forMs } },
    { weight: 3, value: { kind: "killPageServer", pod: oneOf(random, pods) } },
    { weight: 1, value: { kind: "powerCut" } },
    { weight: 7, value: { kind: "registry", fault: oneOf(random, registryFaults), forMs } },
    { weight: 2, value: { kind: "clock", part: clockPart, offsetMs, forMs } },
  ];
}
