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

/** `waking`: names of machines that sleep still and are woken now. */
export function restingPhase(world: World, waking: ReadonlySet<string> = new Set()): SetPhase {
  const rests = (member: Member) => !waking.has(member.vmName) && isAtRest(machineOf(world, member));
  const [main, ...others] = allMembers(world.members);
  if (main && machineOf(world, main)?.failed) return "Failed";
  if (!main || !rests(main)) return "Pending";
  return others.every(rests) ? "Running" : "Scaling";
}

/** Machines of the set that are wanted and are neither ready nor asleep on request. */
export function unavailableMachines(world: World): number {
  return allMembers(world.members).filter((member) => !isAtRest(machineOf(world, member))).length;
}
