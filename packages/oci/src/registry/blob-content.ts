/** Blob content from memory and from files. */
import { createReadStream } from "node:fs";
import { digestOf } from "../digest.ts";
import type { BlobContent } from "./blob-upload.ts";

export function contentOf(bytes: Uint8Array, digest: string = digestOf(bytes)): BlobContent {
  return {
    digest,
    size: bytes.length,
    open: async function* (offset) {
      yield bytes.subarray(offset);
    },
  };
}

/** A file whose digest and size are known; it must not change while it is sent. */
export function contentOfFile(file: {
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
