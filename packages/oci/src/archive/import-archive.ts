/** Reads a snapshot archive into a directory: everything and checked, or nothing. */
import { basename } from "node:path/posix";
import { formatSnapshotEnvelope, readSnapshotEnvelope, type SnapshotEnvelope } from "@cocoon/contract";
import { Fault, isFault, toFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { DigestCheck } from "../digest.ts";
import { startDirectory, type DirectoryBuild } from "../snapshot/build-directory.ts";
import { envelopeName } from "../snapshot/file-name.ts";
import { parseJson } from "../parse-json.ts";
import { SegmentWriter } from "../snapshot/segments.ts";
import { dataBytes, readSparseMap, type Extent } from "../snapshot/sparse-map.ts";
import { decompress } from "./decompress.ts";
import { paxRecord } from "./export-archive.ts";
import { readTar, type TarEntry } from "./read-tar.ts";

export interface ImportArchiveOptions extends Abortable {
  /** Tar, plain or compressed with gzip or zstd. */
  readonly archive: AsyncIterable<Uint8Array>;
  /** Where the snapshot goes; must not exist. */
  readonly directory: string;
  readonly onBytes?: (bytes: number) => void;
}

const limits = {
  what: "snapshot archive",
  maxEntries: 10_000,
  maxBytes: 64 * 2 ** 40,
  /** Sparse maps are PAX records. */
  maxHeaderBytes: 16 * 1024 * 1024,
};
const longestEnvelopeBytes = 16 * 1024 * 1024;

/** Throws `invalid` for what is no snapshot archive, `preconditionFailed` for one of an unknown version. */
export async function importArchive(options: ImportArchiveOptions): Promise<SnapshotEnvelope> {
  await using build = await startDirectory(options.directory);
  try {
    const envelope = await readEntries(build, options);
    await build.addEnvelope(formatSnapshotEnvelope(envelope));
    await build.finish();
    return envelope;
  } catch (error) {
    options.signal.throwIfAborted();
    throw isFault(error) ? error : toFault(error, "reading the snapshot archive");
  }
}

async function readEntries(
  build: DirectoryBuild,
  { archive, signal, onBytes }: ImportArchiveOptions,
): Promise<SnapshotEnvelope> {
  let envelope: SnapshotEnvelope | undefined;
  for await (const entry of readTar(decompress(archive), limits)) {
    signal.throwIfAborted();
    // Names are flattened as the runtime does it: nothing leads out of the directory.
    const name = basename(entry.path);
    if (entry.type !== "file") continue;
    if (name === envelopeName) envelope = await readEnvelope(entry);
    else await readFile({ ...entry, path: name }, build, { signal });
    onBytes?.(entry.sizeBytes);
  }
  if (!envelope) throw malformed(`${envelopeName} not found`);
  return envelope;
}

async function readEnvelope(entry: TarEntry): Promise<SnapshotEnvelope> {
  if (entry.sizeBytes > longestEnvelopeBytes) throw malformed(`${envelopeName} has ${entry.sizeBytes} bytes`);
  const json = parseJson(Buffer.concat(await Array.fromAsync(entry.content)), envelopeName);
  const { data } = z.object({ version: z.int() }).safeParse(json);
  if (data && data.version !== 1)
    throw new Fault("preconditionFailed", `unsupported snapshot archive version ${data.version}`);
  return readSnapshotEnvelope(json);
}

async function readFile(entry: TarEntry, build: DirectoryBuild, { signal }: Abortable): Promise<void> {
  const { size, segments } = readLayout(entry);
  const handle = await build.add({ name: entry.path, size, mode: entry.mode });
  const writer = new SegmentWriter(handle.fd, segments);
  const digest = entry.records.get(paxRecord.digest)?.toString("latin1");
  const check = digest === undefined ? undefined : new DigestCheck(digest, `${entry.path} in the archive`);
  for await (const piece of entry.content) {
    signal.throwIfAborted();
    check?.update(piece);
    await writer.take(piece);
  }
  writer.finish();
  check?.verify();
}

function readLayout({ path, sizeBytes, records }: TarEntry): {
  readonly size: number;
  readonly segments: readonly Extent[];
} {
  const map = records.get(paxRecord.sparseMap)?.toString("latin1");
  if (map === undefined)
    return { size: sizeBytes, segments: sizeBytes === 0 ? [] : [{ offset: 0, length: sizeBytes }] };
  const size = Number(records.get(paxRecord.sparseSize)?.toString("latin1") ?? Number.NaN);
  if (!Number.isSafeInteger(size) || size < 0 || size > limits.maxBytes)
    throw malformed(`${path} has a sparse map but no usable size`);
  const segments = readSparseMap(map, size);
  if (dataBytes(segments) !== sizeBytes)
    throw malformed(`${path}: the sparse map does not describe its ${sizeBytes} bytes`);
  return { size, segments };
}

function malformed(why: string): Fault {
  return new Fault("invalid", `invalid ${limits.what}: ${why}`);
}
