/** Work that goes on in the background, a bounded number of pieces at a time. */

export class TaskGroup {
  readonly #width: number;
  readonly #running = new Set<Promise<void>>();
  #failure: { readonly error: unknown } | undefined;

  constructor(width: number) {
    this.#width = width;
  }

  /** Waits for a free place, then starts the work. Throws what an earlier piece failed with. */
  async start(work: () => Promise<void>): Promise<void> {
    while (this.#running.size >= this.#width && !this.#failure) await Promise.race(this.#running);
    this.#throwFailure();
    const piece = work().catch((error: unknown) => {
      this.#failure ??= { error };
    });
    this.#running.add(piece);
    void piece.finally(() => this.#running.delete(piece));
  }

  /** Waits for everything that was started; throws the first failure. */
  async finish(): Promise<void> {
    await this.settled();
    this.#throwFailure();
  }

  /** Waits for everything that was started, however it went. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }

  #throwFailure(): void {
    if (this.#failure) throw this.#failure.error;
  }
}
