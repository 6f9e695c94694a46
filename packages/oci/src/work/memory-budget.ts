/** A number of bytes that transfers share: a transfer waits until its buffer fits. */
import { Fault, type Abortable } from "@cocoon/core";

interface Waiter {
  readonly bytes: number;
  readonly admit: () => void;
}

export class MemoryBudget {
  readonly limitBytes: number;
  #used = 0;
  readonly #waiting: Waiter[] = [];

  constructor(limitBytes: number) {
    if (!Number.isSafeInteger(limitBytes) || limitBytes <= 0)
      throw new Fault("invalid", `a memory budget of ${limitBytes} bytes cannot hold anything`);
    this.limitBytes = limitBytes;
  }

  get usedBytes(): number {
    return this.#used;
  }

  /**
   * Waits for room, first come first served. Something larger than the whole budget is let in when nothing else is
   * held, so that it is slow and not stuck.
   */
  async acquire(bytes: number, { signal }: Abortable): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.#waiting.length > 0 || !this.#fits(bytes)) await this.#turn(bytes, signal);
    else this.#take(bytes);
    let held = true;
    return {
      [Symbol.dispose]: () => {
        if (held) this.#release(bytes);
        held = false;
      },
    };
  }

  #fits(bytes: number): boolean {
    return this.#used === 0 || this.#used + bytes <= this.limitBytes;
  }

  #take(bytes: number): void {
    this.#used += bytes;
  }

  #turn(bytes: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const waiter: Waiter = {
        bytes,
        admit: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
      };
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(waiter), 1);
        this.#admit();
        reject(signal.reason instanceof Error ? signal.reason : new Error("aborted"));
      };
      signal.addEventListener("abort", leave, { once: true });
      this.#waiting.push(waiter);
    });
  }

  #release(bytes: number): void {
    this.#used -= bytes;
    this.#admit();
  }

  #admit(): void {
    for (let next = this.#waiting[0]; next && this.#fits(next.bytes); next = this.#waiting[0]) {
      this.#waiting.shift();
      this.#take(next.bytes);
      next.admit();
    }
  }
}
