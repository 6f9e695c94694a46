/**
 * SPDY/3.1 header blocks: one zlib stream per direction. Node has no synchronous streaming inflate, so the last 32 KiB of output
 * are the dictionary for the next block.
 */
import { constants, inflateRawSync } from "node:zlib";
import { Fault } from "@cocoon/core";

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

const flushMark = Buffer.from([0x00, 0x00, 0x00, 0xff, 0xff]);

/** The outgoing zlib stream is written by hand, in stored blocks: replies are empty, and requests have few headers. */
export class HeaderEncoder {
  #first = true;

  empty(): Buffer {
    return this.#begin(emptyHeaders);
  }

  encode(headers: Readonly<Record<string, string>>): Buffer {
    const pairs = Object.entries(headers);
    const count = Buffer.alloc(4);
    count.writeUInt32BE(pairs.length);
    const plain = Buffer.concat([count, ...pairs.flat().map(withLength)]);
    const header = Buffer.from([0, 0, 0, 0, 0]);
    header.writeUInt16LE(plain.length, 1);
    header.writeUInt16LE(~plain.length & 0xffff, 3);
    return this.#begin(Buffer.concat([header, plain, flushMark]));
  }

  #begin(block: Buffer): Buffer {
    if (!this.#first) return block;
    this.#first = false;
    return Buffer.concat([zlibHeader, block]);
  }
}

/** The preset zlib dictionary of SPDY/3.1 header blocks: words with their length, then one run of text. */
const words = [
  "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow",
  "authorization cache-control connection content-base content-encoding content-language content-length",
  "content-location content-md5 content-range content-type date etag expect expires from host if-match",
  "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma",
  "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade",
  "user-agent vary via warning www-authenticate method get status",
].flatMap((line) => line.split(" "));

const phrases = ["200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin"];

const tail =
  "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505" +
  "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized" +
  "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable" +
  "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT" +
  "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain," +
  "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

function withLength(word: string): Buffer {
  const bytes = Buffer.alloc(4 + word.length);
  bytes.writeUInt32BE(word.length, 0);
  bytes.write(word, 4, "latin1");
  return bytes;
}

export const spdyDictionary: Buffer = Buffer.concat([
  ...[...words, ...phrases].map(withLength),
  Buffer.from(tail, "latin1"),
]);
