/**
 * SPDY/3.1 header blocks. All blocks of one direction form a single zlib stream, flushed after each block. Node has
 * no synchronous streaming inflate, so the decoder keeps the last 32 KiB of output as the dictionary for the
 * next block: a public, synchronous and bounded way to the same result.
 */
import { constants, inflateRawSync } from "node:zlib";
import { Fault } from "@cocoon/core";
import { spdyDictionary } from "./spdy-dictionary.ts";

const windowBytes = 32 * 1024;
const maximumBlockBytes = 16 * 1024;
const maximumPairs = 64;
/** Set in the second byte of a zlib header when a preset dictionary is named. */
const presetDictionaryFlag = 0x20;

export type SpdyHeaders = ReadonlyMap<string, string>;

export class HeaderDecoder {
  #window: Buffer = spdyDictionary;
  #first = true;

  /** Throws `badRequest` on anything that is not a header block within the limits. */
  decode(block: Buffer): SpdyHeaders {
    const body = this.#first ? withoutZlibHeader(block) : block;
    let plain: Buffer;
    try {
      plain = inflateRawSync(body, {
        dictionary: this.#window,
        finishFlush: constants.Z_SYNC_FLUSH,
        maxOutputLength: maximumBlockBytes,
      });
    } catch (error) {
      throw new Fault("badRequest", "undecodable SPDY header block", { cause: error });
    }
    this.#first = false;
    this.#window = Buffer.concat([this.#window, plain]).subarray(-windowBytes);
    return parsePairs(plain);
  }
}

function withoutZlibHeader(block: Buffer): Buffer {
  if (block.length < 2) throw new Fault("badRequest", "SPDY header block without zlib header");
  return block.subarray(((block[1] ?? 0) & presetDictionaryFlag) === 0 ? 2 : 6);
}

function parsePairs(plain: Buffer): SpdyHeaders {
  const headers = new Map<string, string>();
  let offset = 0;
  const readLength = (): number => {
    if (offset + 4 > plain.length) throw new Fault("badRequest", "truncated SPDY header block");
    offset += 4;
    return plain.readUInt32BE(offset - 4);
  };
  const readText = (): string => {
    const length = readLength();
    if (offset + length > plain.length) throw new Fault("badRequest", "truncated SPDY header block");
    offset += length;
    return plain.toString("latin1", offset - length, offset);
  };
  const pairs = readLength();
  if (pairs > maximumPairs) throw new Fault("badRequest", `too many SPDY headers: ${pairs}`);
  for (let index = 0; index < pairs; index += 1) headers.set(readText().toLowerCase(), readText());
  return headers;
}

const zlibHeader = Buffer.from([0x78, 0x01]);
/** A stored block with "no pairs", then the empty stored block that marks a flush; Go's reader needs the mark. */
const emptyHeaders = Buffer.from([0x00, 0x04, 0x00, 0xfb, 0xff, 0, 0, 0, 0, 0x00, 0x00, 0x00, 0xff, 0xff]);

/** We only ever send empty header lists, so the outgoing zlib stream can be written by hand. */
export class EmptyHeaderEncoder {
  #first = true;

  next(): Buffer {
    if (!this.#first) return emptyHeaders;
    this.#first = false;
    return Buffer.concat([zlibHeader, emptyHeaders]);
  }
}
