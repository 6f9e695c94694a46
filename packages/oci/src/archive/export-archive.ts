/**
 * Writes a snapshot as a tar archive that every `cocoon snapshot import` reads: `snapshot.json` first, then the files in
 * the order of their names, sparse ones as their data with a map in PAX records.
 */
import { createGzip } from "node:zlib";
import { Readable } from "node:stream";
import { formatSnapshotEnvelope, readSnapshotEnvelope } from "@cocoon/contract";
import type { Abortable } from "@cocoon/core";
import { WorkerPool } from "../chunks/worker-pool.ts";
import { envelopeName } from "../snapshot/file-name.ts";
import { findSegments } from "../snapshot/find-segments.ts";
import { readSegments } from "../snapshot/segments.ts";
import { openSource, type OpenFile, type SourceFile } from "../snapshot/source.ts";
import { dataBytes, writeSparseMap } from "../snapshot/sparse-map.ts";
import { endOfArchive, formatEntry, padding } from "./write-tar.ts";

/** Names of PAX records. */
export const paxRecord = {
  sparseMap: "COCOON.sparse.map",
  sparseSize: "COCOON.sparse.size",
  /** Digest of the body. Ours: other readers pass over it, and we check it where it is. */
  digest: "COCOON.digest",
} as const;

export interface ExportArchiveOptions extends Abortable {
  readonly envelope: Readonly<Record<string, unknown>>;
  readonly files: readonly SourceFile[];
  /** Threads that look for holes; default: some of its own. */
  readonly pool?: WorkerPool;
  readonly gzip?: boolean;
  readonly now?: Date;
}

/** The archive as it is made; files are open until the stream ends or is destroyed. */
export function exportArchive(options: ExportArchiveOptions): Readable {
  const plain = Readable.from(writeArchive(options), { objectMode: false });
  if (!options.gzip) return plain;
  const packed = createGzip();
  plain.on("error", (error) => packed.destroy(error));
  packed.on("close", () => plain.destroy());
  return plain.pipe(packed);
}

async function* writeArchive(options: ExportArchiveOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const mtime = options.now ?? new Date();
  const envelope = Buffer.from(formatSnapshotEnvelope(readSnapshotEnvelope(options.envelope)));
  yield formatEntry({ name: envelopeName, mode: 0o644, size: envelope.length, mtime });
  yield envelope;
  yield padding(envelope.length);
  await using stack = new AsyncDisposableStack();
  const pool = options.pool ?? stack.use(new WorkerPool());
  const source = stack.use(await openSource(options.files));
  for (const file of source.files) yield* writeFile(file, mtime, { pool, signal: options.signal });
  yield endOfArchive;
}

async function* writeFile(
  file: OpenFile,
  mtime: Date,
  { pool, signal }: Abortable & { readonly pool: WorkerPool },
): AsyncGenerator<Uint8Array, void, undefined> {
  const segments = await findSegments(file, { pool, signal });
  const size = dataBytes(segments);
  const { digest } = await pool.run({ kind: "digest", fd: file.fd, ranges: segments }, { signal });
  const sparse = {
    [paxRecord.sparseMap]: writeSparseMap(segments),
    [paxRecord.sparseSize]: String(file.size),
  };
  const pax = { ...(size < file.size ? sparse : {}), [paxRecord.digest]: digest };
  yield formatEntry({ name: file.name, mode: file.mode, size, mtime, pax });
  for await (const piece of readSegments(file.fd, segments)) {
    signal.throwIfAborted();
    yield piece;
  }
  yield padding(size);
}
