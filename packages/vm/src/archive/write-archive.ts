/** A snapshot as a tar stream: `snapshot.json` first, then its files by name, sparse ones without their holes. */
import { open, type FileHandle } from "node:fs/promises";
import type { Abortable } from "@cocoon/core";
import { findData, totalLength, writeMap, type Extent } from "./sparse.ts";
import { paddingOf, sparseMapKey, sparseSizeKey, tarBlock, writeHeaders } from "./tar-format.ts";

export interface ArchiveFile {
  readonly name: string;
  readonly path: string;
  readonly mode: number;
}

export interface ArchiveSource {
  /** Content of `snapshot.json`. */
  readonly envelope: unknown;
  readonly files: readonly ArchiveFile[];
  readonly modifiedAt: Date;
}

export const envelopeName = "snapshot.json";
const pieceBytes = 1024 * 1024;

/** The bytes of the archive, in pieces of about a megabyte; a reader that is slow slows it down. */
export async function* writeArchive(
  source: ArchiveSource,
  options: Abortable,
): AsyncGenerator<Buffer, void, void> {
  const envelope = Buffer.from(`${JSON.stringify(source.envelope, null, 2)}\n`, "utf8");
  const entry = { name: envelopeName, size: envelope.length, mode: 0o644, modifiedAt: source.modifiedAt };
  yield writeHeaders(entry, new Map());
  yield padded(envelope);
  for (const file of source.files.toSorted((one, other) => (one.name < other.name ? -1 : 1)))
    yield* writeFile(file, source.modifiedAt, options);
  yield Buffer.alloc(2 * tarBlock);
}

async function* writeFile(
  file: ArchiveFile,
  modifiedAt: Date,
  options: Abortable,
): AsyncGenerator<Buffer, void, void> {
  await using handle = await open(file.path, "r");
  const { size } = await handle.stat();
  const data = await findData(handle, options);
  const bodyBytes = totalLength(data);
  const sparse = bodyBytes < size;
  const records = new Map<string, string>(
    sparse
      ? [
          [sparseMapKey, writeMap(data)],
          [sparseSizeKey, String(size)],
        ]
      : [],
  );
  const header = { name: file.name, size: sparse ? bodyBytes : size, mode: file.mode, modifiedAt };
  yield writeHeaders(header, records);
  for (const extent of sparse ? data : [{ offset: 0, length: size }])
    yield* readExtent(handle, extent, options);
  yield Buffer.alloc(paddingOf(header.size));
}

async function* readExtent(
  file: FileHandle,
  extent: Extent,
  { signal }: Abortable,
): AsyncGenerator<Buffer, void, void> {
  for (let done = 0; done < extent.length;) {
    signal.throwIfAborted();
    const buffer = Buffer.allocUnsafe(Math.min(pieceBytes, extent.length - done));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, extent.offset + done);
    if (bytesRead === 0) throw new Error("a file of the snapshot became shorter while it was read");
    yield buffer.subarray(0, bytesRead);
    done += bytesRead;
  }
}

function padded(content: Buffer): Buffer {
  return Buffer.concat([content, Buffer.alloc(paddingOf(content.length))]);
}
