/**
 * How one chunk becomes bytes and back. Runs inside worker threads, so it stands on Node alone.
 *
 *   raw    the chunk itself
 *   zstd   one zstd frame
 *   delta  one zstd frame whose dictionary is the content of another chunk: what a chunk has in common with its
 *          earlier self costs nothing, so that a few changed pages are a few kilobytes
 */
import { hash } from "node:crypto";
import { constants, zstdCompressSync, zstdDecompressSync } from "node:zlib";

export const encodings = ["raw", "zstd", "delta"] as const;
export type Encoding = (typeof encodings)[number];

/** Thrown when bytes are not what their digest says. Its name survives the way out of a worker thread. */
export class CorruptChunk extends Error {
  override readonly name = "CorruptChunk";
}

export interface Encoded {
  readonly encoding: Encoding;
  readonly bytes: Buffer;
}

export interface EncodeOptions {
  readonly level: number;
  /** Earlier content of the same place. */
  readonly base?: Uint8Array;
}

/** A dictionary that starts like this is read as a trained one, not as plain content. */
const trainedDictionaryMagic = Buffer.from([0x37, 0xa4, 0x30, 0xec]);

/**
 * Compressed only where that saves at least one part in sixteen: reading raw is faster. A delta must be clearly
 * smaller than the chunk by itself, because its base has to be kept for it.
 */
export function encodeChunk(chunk: Uint8Array, { level, base }: EncodeOptions): Encoded {
  const delta = base && canBeDictionary(base) ? compress(chunk, level, base) : undefined;
  if (delta && delta.length <= chunk.length / 8) return { encoding: "delta", bytes: delta };
  const plain = compress(chunk, level);
  if (delta && delta.length * 4 <= plain.length * 3) return { encoding: "delta", bytes: delta };
  if (plain.length <= chunk.length - chunk.length / 16) return { encoding: "zstd", bytes: plain };
  return { encoding: "raw", bytes: Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length) };
}

function canBeDictionary(base: Uint8Array): boolean {
  return base.length >= 8 && !trainedDictionaryMagic.equals(base.subarray(0, 4));
}

function compress(chunk: Uint8Array, level: number, dictionary?: Uint8Array): Buffer {
  return zstdCompressSync(chunk, {
    params: { [constants.ZSTD_c_compressionLevel]: level, [constants.ZSTD_c_checksumFlag]: 0 },
    pledgedSrcSize: chunk.length,
    chunkSize: Math.max(64, chunk.length + chunk.length / 128 + 64), // so that the output is one piece
    ...(dictionary ? { dictionary } : {}),
  });
}

export interface EncodedChunk {
  readonly encoding: Encoding;
  readonly bytes: Uint8Array;
  readonly rawLength: number;
  /** Lower-case hex of the sha256 of the content. */
  readonly id: string;
  /** Content of the chunk that a delta stands on. */
  readonly base?: Uint8Array;
}

/** The content, or CorruptChunk: bytes that were not checked never get out. */
export function decodeChunk(chunk: EncodedChunk): Uint8Array {
  const content = expand(chunk);
  if (content.length !== chunk.rawLength || chunkId(content) !== chunk.id)
    throw new CorruptChunk(`chunk ${chunk.id} does not match its digest`);
  return content;
}

function expand(chunk: EncodedChunk): Uint8Array {
  if (chunk.encoding === "raw") return chunk.bytes;
  if (chunk.encoding === "delta" && !chunk.base)
    throw new CorruptChunk(`chunk ${chunk.id} has lost its base`);
  try {
    return zstdDecompressSync(chunk.bytes, {
      maxOutputLength: chunk.rawLength, // a frame that claims more is a bomb or damaged
      ...(chunk.encoding === "delta" && chunk.base ? { dictionary: chunk.base } : {}),
    });
  } catch (error) {
    throw new CorruptChunk(`chunk ${chunk.id} cannot be decompressed`, { cause: error });
  }
}

export function chunkId(content: Uint8Array): string {
  return hash("sha256", content, "hex");
}

const zeros = Buffer.alloc(64 * 1024);

/** Whether there is nothing but zero bytes. */
export function isZero(content: Uint8Array): boolean {
  for (let at = 0; at < content.length; at += zeros.length) {
    const piece = content.subarray(at, at + zeros.length);
    if (Buffer.compare(piece, piece.length === zeros.length ? zeros : zeros.subarray(0, piece.length)) !== 0)
      return false;
  }
  return true;
}
