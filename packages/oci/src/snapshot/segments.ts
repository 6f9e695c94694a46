/** Files seen as their data segments back to back, which is how sparse files travel in versions 1 and 2. */
import { read, write } from "node:fs";
import { promisify } from "node:util";
import { Fault } from "@cocoon/core";
import { isZero } from "../chunks/codec.ts";
import type { Extent } from "./sparse-map.ts";

const readFd = promisify(read);
const writeFd = promisify(write);
const pieceBytes = 256 * 1024;
const pageBytes = 4096;

/** The segments' bytes from `offset` of their concatenation on. */
export async function* readSegments(
  fd: number,
  segments: readonly Extent[],
  offset = 0,
): AsyncGenerator<Uint8Array, void, undefined> {
  let passed = 0;
  for (const segment of segments) {
    const skip = Math.min(segment.length, Math.max(0, offset - passed));
    passed += segment.length;
    for (let at = segment.offset + skip; at < segment.offset + segment.length;) {
      const length = Math.min(pieceBytes, segment.offset + segment.length - at);
      const { bytesRead, buffer } = await readFd(fd, Buffer.allocUnsafeSlow(length), 0, length, at);
      if (bytesRead === 0)
        throw new Fault("conflict", `the file became shorter than ${at} bytes while it was read`);
      yield buffer.subarray(0, bytesRead);
      at += bytesRead;
    }
  }
}

/** Takes a body piece by piece and puts it where its segments are. Pages of zeros stay holes. */
export class SegmentWriter {
  readonly #fd: number;
  readonly #segments: readonly Extent[];
  #segment = 0;
  #within = 0;
  #taken = 0;

  constructor(fd: number, segments: readonly Extent[]) {
    this.#fd = fd;
    this.#segments = segments;
  }

  get takenBytes(): number {
    return this.#taken;
  }

  async take(piece: Uint8Array): Promise<void> {
    this.#taken += piece.length;
    for (let at = 0; at < piece.length;) {
      const segment = this.#segments[this.#segment];
      if (!segment) throw new Fault("invalid", "the body is longer than its file");
      const length = Math.min(piece.length - at, segment.length - this.#within);
      await writeSparsely(this.#fd, piece.subarray(at, at + length), segment.offset + this.#within);
      at += length;
      this.#within += length;
      if (this.#within < segment.length) continue;
      this.#segment += 1;
      this.#within = 0;
    }
  }

  /** Throws unless everything arrived. */
  finish(): void {
    if (this.#segment < this.#segments.length)
      throw new Fault("invalid", `the body ends after ${this.#taken} bytes, before its file is complete`);
  }
}

async function writeSparsely(fd: number, bytes: Uint8Array, position: number): Promise<void> {
  let start = 0;
  const flush = async (end: number): Promise<void> => {
    if (end > start) await writeAll(fd, bytes.subarray(start, end), position + start);
  };
  // Pages of the file, not of the piece: a hole is a hole only where the file system can make one.
  let at = 0;
  while (at < bytes.length) {
    const end = Math.min(bytes.length, at + pageBytes - ((position + at) % pageBytes));
    if (isZero(bytes.subarray(at, end))) {
      await flush(at);
      start = end;
    }
    at = end;
  }
  await flush(bytes.length);
}

async function writeAll(fd: number, bytes: Uint8Array, position: number): Promise<void> {
  for (let at = 0; at < bytes.length;)
    at += (await writeFd(fd, bytes, at, bytes.length - at, position + at)).bytesWritten;
}
