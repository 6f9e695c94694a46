/**
 * What the registry said during one reconcile. A kubelet drops a copy before its pod says anything of it or goes: an
 * answer from before a pod changed or went says nothing about what is seen now, and the registry is asked again.
 */
import type { Machine } from "../pod-machine.ts";
import type { TagAnswer } from "./observed-set.ts";

type Machines = readonly Pick<Machine, "vm" | "pod">[];

export class TagLookups {
  readonly #answers = new Map<string, { readonly podsThen: string; readonly answer: TagAnswer }>();

  note(vmName: string, machinesThen: Machines, answer: TagAnswer): void {
    this.#answers.set(vmName, { podsThen: describePods(vmName, machinesThen), answer });
  }

  /** Those that were asked for when the pods of their machines were as they are now. */
  forMachines(machines: Machines): ReadonlyMap<string, TagAnswer> {
    const valid = [...this.#answers].filter(
      ([vmName, { podsThen }]) => podsThen === describePods(vmName, machines),
    );
    return new Map(valid.map(([vmName, { answer }]) => [vmName, answer]));
  }

  clear(): void {
    this.#answers.clear();
  }
}

function describePods(vmName: string, machines: Machines): string {
  return machines
    .filter(({ vm }) => vm.vmName === vmName)
    .map(({ pod }) => `${pod.metadata.uid}@${pod.metadata.resourceVersion}`)
    .join();
}
