/** Which phase a set is in when nothing special is under way. */
import type { SetPhase } from "@cocoon/contract";
import type { Machine } from "../machine.ts";
import { allMembers, type Member } from "./members.ts";
import type { World } from "./world.ts";

/** The living pod of a member. */
export function machineOf({ machines }: World, member: Member): Machine | undefined {
  return machines.find((machine) => machine.podName === member.podName && !machine.terminating);
}

/** A pod of that name is still on its way out. */
export function isLeaving({ machines }: World, member: Member): boolean {
  return machines.some((machine) => machine.podName === member.podName && machine.terminating);
}

/** Ready, or asleep because somebody wants it so. */
function isAtRest(machine: Machine | undefined): boolean {
  return machine !== undefined && (machine.ready || machine.asleep);
}

export function restingPhase(world: World): SetPhase {
  const main = machineOf(world, world.members.main);
  if (main?.failed) return "Failed";
  if (!isAtRest(main)) return "Pending";
  const others = allMembers(world.members).slice(1);
  return others.every((member) => isAtRest(machineOf(world, member))) ? "Running" : "Scaling";
}

/** Machines of the set that are wanted and are neither ready nor asleep on request. */
export function unavailableMachines(world: World): number {
  return allMembers(world.members).filter((member) => !isAtRest(machineOf(world, member))).length;
}
