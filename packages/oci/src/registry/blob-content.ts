/** Blob content from memory and from files. */
import { createReadStream } from "node:fs";
import { computeDigest } from "../digest.ts";
import type { BlobContent } from "./blob-upload.ts";

export function toBlobContent(bytes: Uint8Array, digest: string = computeDigest(bytes)): BlobContent {
  return joinPieces([bytes], { digest, size: bytes.length });
}

/** Small enough to see how far a transfer is, large enough not to matter. */
const pieceBytes = 256 * 1024;

/** Content that lies in several buffers. */
export function joinPieces(
  pieces: readonly Uint8Array[],
  { digest, size }: { readonly digest: string; readonly size: number },
): BlobContent {
  return {
    digest,
    size,
    open: async function* (offset) {
      let passed = 0;
      for (const piece of pieces) {
        const skip = Math.min(piece.length, Math.max(0, offset - passed));
        passed += piece.length;
        for (let at = skip; at < piece.length; at += pieceBytes) yield piece.subarray(at, at + pieceBytes);
      }
    },
  };
}

/** A file whose digest and size are known; it must not change while it is sent. */
export function openFileContent(file: {
  readonly path: string;
  readonly digest: string;
  readonly size: number;
}): BlobContent {
  return {
    digest: file.digest,
    size: file.size,
    open: (offset) => createReadStream(file.path, { start: offset, highWaterMark: 256 * 1024 }),
  };
}
