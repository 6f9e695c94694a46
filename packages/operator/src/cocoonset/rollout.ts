/**
 * Machines that no longer match the spec. What can be changed on a living machine is told to it; the others are
 * replaced, main first, as many at a time as the budget allows. A machine that sleeps is left alone until it wakes.
 */
import type { Machine } from "../pod-machine.ts";
import type { Draft } from "./draft.ts";
import { advisoryChanges, findDrift } from "./drift.ts";
import type { Member } from "./members.ts";
import { unavailableMachines } from "./phase.ts";

export class Rollout {
  readonly #draft: Draft;
  readonly #outdated: string[] = [];
  #unavailable: number;

  constructor(draft: Draft) {
    this.#draft = draft;
    this.#unavailable = unavailableMachines(draft.observed);
  }

  consider(member: Member, machine: Machine): void {
    const draft = this.#draft;
    const changes = advisoryChanges(member, machine);
    // Without a new generation: no part waits for it, and a hibernated machine need not be looked up again.
    if (Object.keys(changes).length > 0) draft.do({ kind: "changePod", machine, annotations: changes });
    const drift = findDrift(draft.observed.set, member, machine);
    if (drift === undefined) return;
    this.#outdated.push(machine.podName);
    if (machine.hibernate || !this.#mayReplace(machine)) return;
    if (machine.ready) this.#unavailable += 1;
    draft.deletePod(machine, drift);
  }

  #mayReplace(machine: Machine): boolean {
    const { rollout } = this.#draft.observed.set.spec;
    if (rollout?.strategy === "OnDelete") return false;
    return !machine.ready || this.#unavailable < (rollout?.maxUnavailable ?? 1);
  }

  /** Shown once there was something to say. */
  finish(): void {
    const { observed, generation, conditions } = this.#draft;
    const shown = observed.set.status?.conditions?.some(({ type }) => type === "UpToDate");
    if (!shown && this.#outdated.length === 0) return;
    const current = this.#outdated.length === 0;
    conditions.push({
      type: "UpToDate",
      status: current ? "True" : "False",
      reason: current ? "AllCurrent" : "Outdated",
      message: current ? "" : `pods that do not match the spec: ${this.#outdated.join(", ")}`,
      observedGeneration: generation,
    });
  }
}
