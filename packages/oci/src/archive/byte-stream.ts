/** A stream of bytes, taken in portions that the reader chooses. */
import { malformed } from "./tar-header.ts";

export class ByteStream {
  readonly #source: AsyncIterator<Uint8Array>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Uint8Array>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  /** The next bytes without taking them; fewer at the end. */
  async peek(length: number): Promise<Buffer> {
    while (this.#rest.length < length) {
      const next = await this.#source.next();
      if (next.done) break;
      this.#rest = Buffer.concat([this.#rest, next.value]);
    }
    return this.#rest.subarray(0, length);
  }

  /** Exactly so many bytes, or undefined at the very end. */
  async tryTake(length: number): Promise<Buffer | undefined> {
    const bytes = await this.peek(length);
    if (bytes.length === 0 && length > 0) return undefined;
    if (bytes.length < length) throw malformed("it ends in the middle");
    this.#rest = this.#rest.subarray(length);
    return bytes;
  }

  /** So many bytes as they come. */
  async *pass(length: number): AsyncGenerator<Uint8Array, void, undefined> {
    let left = length;
    while (left > 0) {
      if (this.#rest.length === 0) await this.peek(1);
      if (this.#rest.length === 0) throw malformed("it ends in the middle");
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  async skip(length: number): Promise<void> {
    for await (const _piece of this.pass(length));
  }

  /** Everything that is left. */
  async *all(): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#rest.length > 0) yield this.#rest;
    this.#rest = Buffer.alloc(0);
    for (let next = await this.#source.next(); !next.done; next = await this.#source.next()) yield next.value;
  }

  /** Lets go of the source. */
  async close(): Promise<void> {
    await this.#source.return?.();
  }
}
