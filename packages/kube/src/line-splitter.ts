/** Cuts a stream of bytes into lines. Works on bytes, so a character cut in two between chunks does no harm. */

const newline = 0x0a;

export class LineSplitter {
  readonly #maxBytes: number;
  #parts: Buffer[] = [];
  #partBytes = 0;
  #skipping = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that this chunk completes, without their newline; undefined stands for one that is too long. */
  push(chunk: Buffer): (string | undefined)[] {
    const lines: (string | undefined)[] = [];
    let start = 0;
    for (let end = chunk.indexOf(newline); end >= 0; end = chunk.indexOf(newline, start)) {
      lines.push(this.#complete(chunk, start, end));
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(start === 0 ? chunk : chunk.subarray(start));
    return lines;
  }

  #complete(chunk: Buffer, start: number, end: number): string | undefined {
    const tooLong = this.#skipping || this.#partBytes + end - start > this.#maxBytes;
    const parts = this.#parts;
    this.#parts = [];
    this.#partBytes = 0;
    this.#skipping = false;
    if (tooLong) return undefined;
    if (parts.length === 0) return chunk.toString("utf8", start, end);
    parts.push(chunk.subarray(start, end));
    return Buffer.concat(parts).toString("utf8");
  }

  #keep(part: Buffer): void {
    if (this.#skipping) return;
    this.#parts.push(part);
    this.#partBytes += part.length;
    if (this.#partBytes <= this.#maxBytes) return;
    this.#skipping = true; // its end is still needed, its content is not
    this.#parts = [];
  }
}
