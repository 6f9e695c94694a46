/** What a full queue refuses follows from the sources: their keys are fed again until all were accepted. */
import type { Clock } from "@cocoon/core";

export interface OverflowRecoveryOptions {
  readonly clock: Clock;
  readonly allKeys: () => Iterable<string>;
  readonly add: (key: string) => boolean;
}

const recheckMs = 1_000;

export class OverflowRecovery implements Disposable {
  readonly #options: OverflowRecoveryOptions;
  #refused = false;
  #backlog: string[] = [];
  #cancel: (() => void) | undefined;
  #disposed = false;

  constructor(options: OverflowRecoveryOptions) {
    this.#options = options;
  }

  get active(): boolean {
    return this.#cancel !== undefined;
  }

  noteRefusal(): void {
    this.#refused = true;
    if (!this.active) this.#schedule();
  }

  [Symbol.dispose](): void {
    this.#disposed = true;
    this.#cancel?.();
    this.#cancel = undefined;
  }

  #schedule(): void {
    if (!this.#disposed) this.#cancel = this.#options.clock.schedule(recheckMs, () => this.#feed());
  }

  #feed(): void {
    this.#cancel = undefined;
    if (this.#backlog.length === 0 && this.#refused) {
      this.#refused = false;
      this.#backlog = [...new Set(this.#options.allKeys())];
    }
    for (
      let key = this.#backlog.at(-1);
      key !== undefined && this.#options.add(key);
      key = this.#backlog.at(-1)
    )
      this.#backlog.pop();
    if (this.#backlog.length > 0 || this.#refused) this.#schedule();
  }
}
