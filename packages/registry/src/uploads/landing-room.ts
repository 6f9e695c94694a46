/**
 * Memory that a large body lands in, shared with the thread that hashes and writes it. It is used again for the next
 * one: fresh memory costs a page fault every 4 KiB.
 */

/** In flight between the network and the file: one is filled while the others are hashed and written. */
const slotsOfRoom = 4;
const slotBytes = 1024 * 1024;
const mostRooms = 8;
const idleMs = 30_000;

interface Slot {
  readonly memory: SharedArrayBuffer;
  readonly offset: number;
}

/** The part of a room that was handed on, until it is free again. */
export type SealedSlot = Slot;

export class LandingRoom {
  readonly #free: Slot[];
  #current: Slot | undefined;
  #filledBytes = 0;

  constructor(memory = new SharedArrayBuffer(slotsOfRoom * slotBytes)) {
    this.#free = Array.from({ length: slotsOfRoom }, (_, index) => ({ memory, offset: index * slotBytes }));
    this.#current = this.#free.pop();
  }

  /** Whether there is a place beside the one that is filled now. */
  get hasSpare(): boolean {
    return this.#free.length > 0;
  }

  /** All of it is free. */
  get isEmpty(): boolean {
    return this.#free.length === slotsOfRoom - 1 && this.#filledBytes === 0;
  }

  /** The rest of the current slot; undefined when all are handed on. */
  place(mostBytes: number): Uint8Array | undefined {
    const left = Math.min(slotBytes - this.#filledBytes, mostBytes);
    return this.#current && left > 0 ? this.#view(this.#current, left) : undefined;
  }

  /** So much came to the place: here it is. */
  filled(bytes: number): Uint8Array {
    if (!this.#current) throw new Error("bytes landed where there is no place");
    const view = this.#view(this.#current, bytes);
    this.#filledBytes += bytes;
    return view;
  }

  /** What is in the current slot is handed on; undefined when that is nothing. */
  seal(): SealedSlot | undefined {
    if (this.#filledBytes === 0) return undefined;
    const sealed = this.#current;
    this.#current = this.#free.pop();
    this.#filledBytes = 0;
    return sealed;
  }

  free(slot: SealedSlot): void {
    if (this.#current) this.#free.push(slot);
    else this.#current = slot;
  }

  #view({ memory, offset }: Slot, bytes: number): Uint8Array {
    return new Uint8Array(memory, offset + this.#filledBytes, bytes);
  }
}

/** Rooms for all uploads; so many at a time that memory stays bounded, others land elsewhere. */
export class LandingRooms implements Disposable {
  readonly #kept: LandingRoom[] = [];
  #used = 0;
  #idle: NodeJS.Timeout | undefined;

  tryTake(): LandingRoom | undefined {
    if (this.#used >= mostRooms) return undefined;
    this.#used += 1;
    clearTimeout(this.#idle);
    return this.#kept.pop() ?? new LandingRoom();
  }

  /** A room that is not empty, or that somebody may still write to, is not used again. */
  giveBack(room: LandingRoom, { isFree }: { readonly isFree: boolean }): void {
    this.#used -= 1;
    if (isFree && room.isEmpty) this.#kept.push(room);
    if (this.#used > 0) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => this.#kept.splice(0), idleMs).unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#idle);
    this.#kept.splice(0);
  }
}
