/** Notices that something may have changed. One that comes while nobody waits counts for the next who does. */
import type { Abortable } from "@cocoon/core";
import type { Clock } from "./clock.ts";

export class Notices {
  #noticed = false;
  #wake: () => void = () => undefined;

  readonly notify = (): void => {
    this.#noticed = true;
    this.#wake();
  };

  /** Until the next notice, the time, or the signal; false in the last case. */
  async wait(ms: number, { clock, signal }: Abortable & { readonly clock: Clock }): Promise<boolean> {
    const waiting = new AbortController();
    const noticed = new Promise<void>((resolve) => (this.#wake = resolve));
    if (this.#noticed) this.#wake();
    await Promise.race([noticed, clock.sleep(ms, { signal: AbortSignal.any([signal, waiting.signal]) })]);
    waiting.abort();
    this.#noticed = false;
    return !signal.aborted;
  }
}
