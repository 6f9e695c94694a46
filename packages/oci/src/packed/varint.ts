/** Bytes written and read in order: whole numbers of variable length (LEB128), digests, text. */
import { Fault } from "@cocoon/core";

export class ByteWriter {
  #buffer = Buffer.allocUnsafe(64 * 1024);
  #length = 0;

  number(value: number): void {
    if (!Number.isSafeInteger(value) || value < 0) throw new RangeError(`${value} cannot be written`);
    this.#reserve(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#buffer[this.#length++] = (rest % 0x80) | 0x80;
      rest = Math.floor(rest / 0x80);
    }
    this.#buffer[this.#length++] = rest;
  }

  /** Small numbers of either sign stay small. */
  signed(value: number): void {
    this.number(value >= 0 ? value * 2 : -value * 2 - 1);
  }

  byte(value: number): void {
    this.#reserve(1);
    this.#buffer[this.#length++] = value;
  }

  hex(text: string): void {
    this.#reserve(text.length / 2);
    this.#length += this.#buffer.write(text, this.#length, "hex");
  }

  bytes(value: Uint8Array): void {
    this.#reserve(value.length);
    this.#buffer.set(value, this.#length);
    this.#length += value.length;
  }

  text(value: string): void {
    const bytes = Buffer.from(value, "utf8");
    this.number(bytes.length);
    this.bytes(bytes);
  }

  finish(): Buffer {
    return this.#buffer.subarray(0, this.#length);
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#length + bytes));
    this.#buffer.copy(larger, 0, 0, this.#length);
    this.#buffer = larger;
  }
}

/** Reads what ByteWriter wrote; anything else is a Fault that says what it was reading. */
export class ByteReader {
  readonly #buffer: Buffer;
  readonly #what: string;
  #at = 0;

  constructor(bytes: Uint8Array, what: string) {
    this.#buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    this.#what = what;
  }

  get left(): number {
    return this.#buffer.length - this.#at;
  }

  number(limit: number, field: string): number {
    let value = 0;
    let scale = 1;
    for (let count = 0; count < 8; count += 1) {
      const byte = this.byte(field);
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (value > limit) throw this.malformed(`${field} is ${value}, more than ${limit}`);
        return value;
      }
      scale *= 0x80;
    }
    throw this.malformed(`${field} is not a number`);
  }

  signed(limit: number, field: string): number {
    const value = this.number(limit * 2 + 1, field);
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  byte(field: string): number {
    const value = this.#buffer[this.#at];
    if (value === undefined) throw this.malformed(`it ends inside ${field}`);
    this.#at += 1;
    return value;
  }

  bytes(length: number, field: string): Buffer {
    if (length > this.left) throw this.malformed(`it ends inside ${field}`);
    this.#at += length;
    return this.#buffer.subarray(this.#at - length, this.#at);
  }

  hex(length: number, field: string): string {
    return this.bytes(length, field).toString("hex");
  }

  text(limit: number, field: string): string {
    const bytes = this.bytes(this.number(limit, `length of ${field}`), field);
    const text = bytes.toString("utf8");
    if (!Buffer.from(text, "utf8").equals(bytes)) throw this.malformed(`${field} is not UTF-8`);
    return text;
  }

  malformed(why: string): Fault {
    return new Fault("invalid", `${this.#what} is malformed: ${why}`);
  }
}
