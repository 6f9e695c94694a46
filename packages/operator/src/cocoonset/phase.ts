/** Which phase a set is in when nothing special is under way. */
import type { SetPhase } from "@cocoon/contract";
import type { Machine } from "../pod-machine.ts";
import { allMembers, type Member } from "./members.ts";
import type { ObservedSet } from "./observed-set.ts";

/** The living pod of a member. */
export function findMachine({ machines }: ObservedSet, member: Member): Machine | undefined {
  return machines.find((machine) => machine.podName === member.podName && !machine.terminating);
}

/** A pod of that name is terminating. */
export function isTerminating({ machines }: ObservedSet, member: Member): boolean {
  return machines.some((machine) => machine.podName === member.podName && machine.terminating);
}

/** Ready, or asleep on request. */
function isAtRest(machine: Machine | undefined): boolean {
  return machine !== undefined && (machine.ready || machine.asleep);
}

/** `waking`: names of machines that sleep still and are woken now. */
export function restingPhase(observed: ObservedSet, waking: ReadonlySet<string> = new Set()): SetPhase {
  const rests = (member: Member) => !waking.has(member.vmName) && isAtRest(findMachine(observed, member));
  const [main, ...others] = allMembers(observed.members);
  if (main && findMachine(observed, main)?.failed) return "Failed";
  if (!main || !rests(main)) return "Pending";
  return others.every(rests) ? "Running" : "Scaling";
}

/** Machines of the set that are wanted and are neither ready nor asleep on request. */
export function unavailableMachines(observed: ObservedSet): number {
  return allMembers(observed.members).filter((member) => !isAtRest(findMachine(observed, member))).length;
}
