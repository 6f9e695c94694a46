/** How much of request bodies and of large answers all requests together hold in memory. */
import { Fault } from "@cocoon/core";

/** Above this, bodies go to disk sooner and in smaller batches. */
const scarceAboveBytes = 32 * 1024 * 1024;
/** Above this, what can only be held in memory has to wait. */
const maxBytes = 128 * 1024 * 1024;

export class BodyMemory {
  #heldBytes = 0;

  get heldBytes(): number {
    return this.#heldBytes;
  }

  get isScarce(): boolean {
    return this.#heldBytes > scarceAboveBytes;
  }

  add(bytes: number): void {
    this.#heldBytes += bytes;
  }

  remove(bytes: number): void {
    this.#heldBytes -= bytes;
  }

  /** Throws 503 when there is no room for so much more. */
  assertRoom(bytes: number): void {
    if (this.#heldBytes + bytes > maxBytes)
      throw new Fault("unavailable", "too many large requests at once; try again", { retryAfterMs: 1_000 });
  }
}
