/** Reads a stream by exact numbers of bytes, with backpressure: nothing is read ahead beyond one piece. */
import { Readable } from "node:stream";
import { Fault, type Abortable } from "@cocoon/core";

export class ByteReader {
  readonly #pieces: AsyncIterator<Buffer, unknown, unknown>;
  readonly #signal: AbortSignal;
  #rest: Buffer = Buffer.alloc(0);

  private constructor(pieces: AsyncIterator<Buffer, unknown, unknown>, signal: AbortSignal) {
    this.#pieces = pieces;
    this.#signal = signal;
  }

  static open(stream: Readable, { signal }: Abortable): Promise<ByteReader> {
    const pieces = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
    return Promise.resolve(new ByteReader(pieces, signal));
  }

  /** That many bytes without consuming them; fewer at the end. */
  async peek(count: number): Promise<Buffer> {
    await this.#fill(count);
    return this.#rest.subarray(0, count);
  }

  /** Exactly that many bytes. `invalid` when the stream ends before. */
  async read(count: number): Promise<Buffer> {
    const content = await this.tryRead(count);
    if (!content) throw new Fault("invalid", "invalid snapshot archive: it ends in the middle");
    return content;
  }

  /** The same, or undefined when the stream is at its end. */
  async tryRead(count: number): Promise<Buffer | undefined> {
    if (count === 0) return Buffer.alloc(0);
    await this.#fill(count);
    if (this.#rest.length === 0) return undefined;
    if (this.#rest.length < count)
      throw new Fault("invalid", "invalid snapshot archive: it ends in the middle");
    const content = this.#rest.subarray(0, count);
    this.#rest = this.#rest.subarray(count);
    return content;
  }

  /** Reads and drops what is left. */
  async drain(): Promise<void> {
    this.#rest = Buffer.alloc(0);
    while (await this.#next()) this.#signal.throwIfAborted();
  }

  /** What is left, as a stream. */
  toStream(): Readable {
    const next = async () => {
      const rest = this.#rest;
      this.#rest = Buffer.alloc(0);
      return rest.length > 0 ? rest : this.#next();
    };
    async function* pieces(): AsyncGenerator<Buffer, void, void> {
      for (let piece = await next(); piece; piece = await next()) yield piece;
    }
    return Readable.from(pieces());
  }

  async #fill(count: number): Promise<void> {
    const pieces = [this.#rest];
    let length = this.#rest.length;
    while (length < count) {
      this.#signal.throwIfAborted();
      const piece = await this.#next();
      if (!piece) break;
      pieces.push(piece);
      length += piece.length;
    }
    this.#rest = pieces.length === 1 ? this.#rest : Buffer.concat(pieces);
  }

  async #next(): Promise<Buffer | undefined> {
    const { value, done } = await this.#pieces.next();
    return done ? undefined : value;
  }
}
