/** One line that says how far something is: rewritten in place on a terminal, else one line per change. */

interface Sink {
  readonly isTTY?: boolean;
  readonly columns?: number;
  write(text: string): unknown;
}

export class ProgressLine implements Disposable {
  readonly #status: Sink;
  readonly #result: Sink;
  #last = "";
  #shown = false;

  /** Progress goes to `status`, results to `result`. */
  constructor(status: Sink, result: Sink) {
    this.#status = status;
    this.#result = result;
  }

  show(text: string, elapsedMs: number): void {
    if (this.#status.isTTY) {
      const line = `${Math.floor(elapsedMs / 1000)}s  ${text}`;
      this.#status.write(`\r\x1b[2K${line.slice(0, Math.max(20, (this.#status.columns ?? 80) - 1))}`);
      this.#shown = true;
    } else if (text !== this.#last) this.#status.write(`${text}\n`);
    this.#last = text;
  }

  print(text: string): void {
    this.#clear();
    this.#result.write(`${text}\n`);
  }

  #clear(): void {
    if (this.#shown) this.#status.write("\r\x1b[2K");
    this.#shown = false;
  }

  [Symbol.dispose](): void {
    this.#clear();
  }
}
