/** Unwraps a stream by what it begins with, not by its declared type. */
import { Readable } from "node:stream";
import { createGunzip, createZstdDecompress } from "node:zlib";
import { Fault, systemCode } from "@cocoon/core";

const gzipMagic = Buffer.from([0x1f, 0x8b]);
const zstdMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
const unsupported: readonly [magic: Buffer, name: string][] = [
  [Buffer.from([0xfd, 0x37, 0x7a, 0x58, 0x5a]), "xz"],
  [Buffer.from("BZh"), "bzip2"],
];

export function startsWith(head: Buffer, magic: Buffer): boolean {
  return head.subarray(0, magic.length).equals(magic);
}

/** Bytes as they are, or unpacked when they are gzip or zstd. A damaged stream is one `invalid` fault. */
export async function* decompress(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const { head, rest } = await peek(source, 8);
  const foreign = unsupported.find(([magic]) => startsWith(head, magic));
  if (foreign) throw new Fault("notSupported", `the file is packed with ${foreign[1]}: unpack it first`);
  const unpacker = startsWith(head, gzipMagic)
    ? createGunzip()
    : startsWith(head, zstdMagic)
      ? createZstdDecompress()
      : undefined;
  if (!unpacker) {
    yield* rest;
    return;
  }
  const input = Readable.from(rest, { objectMode: false });
  input.on("error", (error) => unpacker.destroy(error));
  try {
    for await (const chunk of input.pipe(unpacker)) yield chunk as Buffer;
  } catch (error) {
    if (isUnpackError(error)) {
      throw new Fault("invalid", "the packed data is damaged or cut short", { cause: error });
    }
    throw error;
  } finally {
    input.destroy();
  }
}

function isUnpackError(error: unknown): boolean {
  return /^(?:Z_|ZSTD_|ERR_ZSTD|ERR_ZLIB)/.test(systemCode(error) ?? "");
}

/** The first bytes of a stream, and the whole stream. */
async function peek(
  source: AsyncIterable<Uint8Array>,
  bytes: number,
): Promise<{ readonly head: Buffer; readonly rest: AsyncGenerator<Buffer> }> {
  const iterator = source[Symbol.asyncIterator]();
  const seen: Uint8Array[] = [];
  let length = 0;
  while (length < bytes) {
    const next = await iterator.next();
    if (next.done) break;
    seen.push(next.value);
    length += next.value.length;
  }
  const head = Buffer.concat(seen);
  async function* all(): AsyncGenerator<Buffer> {
    try {
      if (head.length > 0) yield head;
      for (let next = await iterator.next(); !next.done; next = await iterator.next())
        yield Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength);
    } finally {
      await iterator.return?.();
    }
  }
  return { head, rest: all() };
}
