/** The slots of one owner at one moment, and which of them comes next. Made once per round of decisions. */
import { maxSlot } from "@cocoon/contract";
import { occupancyOf, type LiveLook } from "../pods/occupancy.ts";
import type { PodIndex } from "../pods/pod-index.ts";
import type { SlimPod } from "../pods/slim-pod.ts";
import { lineageKey, slotPrefixOf, vmNameOf, type Lineage } from "./entry.ts";
import type { Held, Ledger } from "./ledger.ts";

export interface ViewOptions {
  readonly ledger: Ledger;
  readonly pods: PodIndex;
  readonly lineage: Lineage;
  readonly pool: string;
  readonly look?: LiveLook | undefined;
}

export class LineageView {
  /** Slots whose pods are gone, lowest first; only of this pool: a machine does not change it. */
  readonly #vacant: Held[] = [];
  readonly #used = new Set<number>();
  readonly #byPod = new Map<string, Held>();
  readonly #options: ViewOptions;
  readonly terminating: SlimPod[] = [];
  /** Slots with a pod, or with one to come. */
  active = 0;
  #lowest = 0;

  constructor(options: ViewOptions) {
    this.#options = options;
    const { ledger, lineage } = options;
    const own = lineageKey(lineage);
    for (const held of ledger.below(slotPrefixOf(lineage))) {
      this.#used.add(held.entry.slot);
      if (lineageKey(held.entry) === own) this.#count(held);
    }
    this.#vacant.sort((left, right) => right.entry.slot - left.entry.slot);
  }

  #count(held: Held): void {
    const { pool, ledger, pods, look } = this.#options;
    const { entry } = held;
    if (entry.pod !== "") this.#byPod.set(entry.pod, held);
    const occupancy = occupancyOf(held, pods, look);
    if (occupancy.kind === "terminating") this.terminating.push(occupancy.pod);
    else if (occupancy.kind === "gone" && !ledger.inFlight(entry.vmName)) {
      if (entry.pool === pool) this.#vacant.push(held);
    } else if (occupancy.kind !== "finished") this.active += 1;
  }

  get heldSlots(): number {
    return this.active + this.terminating.length;
  }

  /** The slot that a pod of that name holds already. */
  slotOf(podName: string): Held | undefined {
    const held = this.#byPod.get(podName);
    return held && !this.#options.ledger.inFlight(held.entry.vmName) ? held : undefined;
  }

  takeVacant(): Held | undefined {
    const held = this.#vacant.pop();
    if (held) this.active += 1;
    return held;
  }

  /** Puts back what `takeVacant` gave. */
  giveBack(held: Held): void {
    this.#vacant.push(held);
    this.active -= 1;
  }

  /** The smallest number that nobody has; undefined when there is none left. */
  takeLowest(): number | undefined {
    const { ledger, pods, lineage } = this.#options;
    for (let slot = this.#lowest; slot <= maxSlot; slot += 1) {
      if (this.#used.has(slot)) continue;
      const vmName = vmNameOf(lineage, slot);
      this.#used.add(slot);
      this.#lowest = slot + 1;
      if (ledger.inFlight(vmName) || pods.withVmName(vmName).size > 0) continue;
      this.active += 1;
      return slot;
    }
    return undefined;
  }

  giveBackNumber(slot: number): void {
    this.#used.delete(slot);
    this.#lowest = Math.min(this.#lowest, slot);
    this.active -= 1;
  }
}
