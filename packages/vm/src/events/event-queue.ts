/** A bounded queue between the monitor and one watcher. A watcher that falls too far behind gets a new list. */
import type { VmEvent } from "../runtime.ts";

const maxQueued = 4096;

export class EventQueue implements AsyncIterable<VmEvent> {
  readonly #relist: () => readonly VmEvent[];
  readonly #signal: AbortSignal;
  #events: VmEvent[] = [];
  #wake: (() => void) | undefined;

  constructor(relist: () => readonly VmEvent[], signal: AbortSignal) {
    this.#relist = relist;
    this.#signal = signal;
    signal.addEventListener("abort", () => this.#wake?.(), { once: true });
  }

  push(...events: readonly VmEvent[]): void {
    if (this.#events.length + events.length > maxQueued) this.#events = [...this.#relist()];
    else this.#events.push(...events);
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<VmEvent, void, void> {
    while (!this.#signal.aborted) {
      const event = this.#events.shift();
      if (event) yield event;
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
    }
  }
}
