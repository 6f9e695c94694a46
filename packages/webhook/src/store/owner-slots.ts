/** The slots of one owner at one moment, and which of them comes next. Made once per round of decisions. */
import { maxSlot } from "@cocoon/contract";
import { getOccupancy, type LiveLook } from "../pods/occupancy.ts";
import type { PodIndex } from "../pods/pod-index.ts";
import type { SlimPod } from "../pods/slim-pod.ts";
import { formatOwnerKey, formatSlotPrefix, formatSlotVmName, type OwnerChain } from "./entry.ts";
import type { Held, ReservationIndex } from "./reservation-index.ts";

export interface ViewOptions {
  readonly reserved: ReservationIndex;
  readonly pods: PodIndex;
  readonly ownerChain: OwnerChain;
  readonly pool: string;
  readonly look?: LiveLook | undefined;
}

export class OwnerSlots {
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
    const { reserved, ownerChain } = options;
    const own = formatOwnerKey(ownerChain);
    for (const held of reserved.below(formatSlotPrefix(ownerChain))) {
      this.#used.add(held.entry.slot);
      if (formatOwnerKey(held.entry) === own) this.#count(held);
    }
    this.#vacant.sort((left, right) => right.entry.slot - left.entry.slot);
  }

  #count(held: Held): void {
    const { pool, reserved, pods, look } = this.#options;
    const { entry } = held;
    if (entry.pod !== "") this.#byPod.set(entry.pod, held);
    const occupancy = getOccupancy(held, pods, look);
    if (occupancy.kind === "terminating") this.terminating.push(occupancy.pod);
    else if (occupancy.kind === "gone" && !reserved.inFlight(entry.vmName)) {
      if (entry.pool === pool) this.#vacant.push(held);
    } else if (occupancy.kind !== "finished") this.active += 1;
  }

  get heldSlots(): number {
    return this.active + this.terminating.length;
  }

  findSlot(podName: string): Held | undefined {
    const held = this.#byPod.get(podName);
    return held && !this.#options.reserved.inFlight(held.entry.vmName) ? held : undefined;
  }

  takeVacant(): Held | undefined {
    const held = this.#vacant.pop();
    if (held) this.active += 1;
    return held;
  }

  giveBack(held: Held): void {
    this.#vacant.push(held);
    this.active -= 1;
  }

  /** The smallest free number; undefined when there is none left. */
  takeLowest(): number | undefined {
    const { reserved, pods, ownerChain } = this.#options;
    for (let slot = this.#lowest; slot <= maxSlot; slot += 1) {
      if (this.#used.has(slot)) continue;
      const vmName = formatSlotVmName(ownerChain, slot);
      this.#used.add(slot);
      this.#lowest = slot + 1;
      if (reserved.inFlight(vmName) || pods.withVmName(vmName).size > 0) continue;
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
