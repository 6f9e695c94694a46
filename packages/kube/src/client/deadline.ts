/** A caller's signal plus a time limit. Cheaper than `AbortSignal.any`, and lets go of the caller's signal. */
export class Deadline implements Disposable {
  readonly #controller = new AbortController();
  readonly signal: AbortSignal = this.#controller.signal;
  readonly #caller: AbortSignal;
  #timer: NodeJS.Timeout | undefined;
  /** The time ran out, and it was not the caller who stopped it. */
  expired = false;

  constructor(caller: AbortSignal, ms: number) {
    this.#caller = caller;
    if (caller.aborted) this.#controller.abort(caller.reason);
    else caller.addEventListener("abort", this.#onAbort, { once: true });
    this.#timer = setTimeout(() => {
      this.expired = true;
      this.#controller.abort(new DOMException(`no answer within ${ms} ms`, "TimeoutError"));
    }, ms);
  }

  /** The time limit no longer counts, the caller's signal still does. */
  lift(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  abort(reason: Error): void {
    this.#controller.abort(reason);
  }

  readonly #onAbort = (): void => {
    this.#controller.abort(this.#caller.reason);
  };

  [Symbol.dispose](): void {
    this.lift();
    this.#caller.removeEventListener("abort", this.#onAbort);
  }
}
