/**
 * A snapshot that is in a registry as an archive, made while it is sent, without a copy on disk. Used by
 * a server that reads the blobs from its own storage. Every byte is checked before it is passed on, as far
 * as a stream can: whole layers only at their end, chunks of packs one by one.
 */
import { Readable } from "node:stream";
import { createZstdDecompress } from "node:zlib";
import {
  assemblePackedSnapshot,
  assembleSnapshot,
  envelopeFromConfig,
  formatSnapshotEnvelope,
  maxSnapshotConfigBytes,
  readSnapshotConfig,
  readSnapshotManifest,
  type Descriptor,
  type SnapshotConfig,
  type SnapshotPart,
} from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import { decodeChunk } from "../chunks/codec.ts";
import { assertDigest, DigestCheck } from "../digest.ts";
import {
  indexLimitBytes,
  readIndex,
  type IndexedChunk,
  type IndexedFile,
  type SnapshotIndex,
} from "../packed/index-codec.ts";
import { parseJson } from "../parse-json.ts";
import type { BlobPart } from "../registry/blob-download.ts";
import { envelopeName } from "../snapshot/file-name.ts";
import { shortened } from "../snapshot/find-segments.ts";
import { getPartShape, type PartShape } from "../snapshot/pull-layers.ts";
import { dataBytes, joinExtents, writeSparseMap, type Extent } from "../snapshot/sparse-map.ts";
import { paxRecord } from "./export-archive.ts";
import { endOfArchive, formatEntry, padding } from "./write-tar.ts";

/** Reads a blob or a part of it; need not check anything. */
type ReadBlob = (part: BlobPart) => AsyncIterable<Uint8Array>;

export interface SnapshotArchiveOptions {
  /** The manifest's bytes, checked against its digest. */
  readonly manifest: Uint8Array;
  readonly read: ReadBlob;
  /** Local name for the envelope. */
  readonly name: string;
  readonly now?: Date;
}

/** Throws before the first byte when the snapshot cannot be understood, later when it is damaged. */
export async function* snapshotArchive(
  options: SnapshotArchiveOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  const { read, name, now: mtime = new Date() } = options;
  const manifest = readSnapshotManifest(parseJson(options.manifest, "manifest"));
  const config = readSnapshotConfig(
    parseJson(await readSmall(read, manifest.config, maxSnapshotConfigBytes), "snapshot config"),
  );
  const envelope = Buffer.from(formatSnapshotEnvelope(envelopeFromConfig(config, name)));
  const files =
    config.schemaVersion === "packed-v1"
      ? await packedFiles(manifest, config, read)
      : partFiles(manifest, config, read);
  yield formatEntry({ name: envelopeName, mode: 0o644, size: envelope.length, mtime });
  yield envelope;
  yield padding(envelope.length);
  for (const file of files) {
    const size = dataBytes(file.segments);
    const sparse = {
      [paxRecord.sparseMap]: writeSparseMap(file.segments),
      [paxRecord.sparseSize]: String(file.size),
    };
    const entry = { name: file.name, mode: file.mode, size, mtime };
    yield formatEntry(size < file.size ? { ...entry, pax: sparse } : entry);
    yield* exactly(file.body(), size, file.name);
    yield padding(size);
  }
  yield endOfArchive;
}

interface ArchivedFile extends PartShape {
  readonly name: string;
  body(): AsyncIterable<Uint8Array>;
}

function partFiles(
  manifest: Parameters<typeof assembleSnapshot>[0],
  config: SnapshotConfig,
  read: ReadBlob,
): ArchivedFile[] {
  return assembleSnapshot(manifest, config).map((part) => ({
    name: part.name,
    ...getPartShape(part),
    body: () => partBody(part, read),
  }));
}

async function* partBody(part: SnapshotPart, read: ReadBlob): AsyncGenerator<Uint8Array, void, undefined> {
  for (const layer of part.layers) {
    if (!part.compressed) yield* checked(read, layer);
    else yield* unpacked(checked(read, layer), part.name);
  }
}

async function* unpacked(
  source: AsyncIterable<Uint8Array>,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const input = Readable.from(source, { objectMode: false });
  const unpacker = createZstdDecompress();
  input.on("error", (error) => unpacker.destroy(error));
  try {
    for await (const piece of input.pipe(unpacker) as AsyncIterable<Uint8Array>) yield piece;
  } catch (error) {
    throw new Fault("invalid", `${name} cannot be decompressed`, { cause: error });
  } finally {
    input.destroy();
  }
}

async function* checked(
  read: ReadBlob,
  { digest, size }: Descriptor,
): AsyncGenerator<Uint8Array, void, undefined> {
  const check = new DigestCheck(digest, `layer ${digest}`);
  for await (const piece of read({ digest, size })) {
    check.update(piece);
    yield piece;
  }
  check.verify();
}

async function packedFiles(
  manifest: Parameters<typeof assemblePackedSnapshot>[0],
  config: SnapshotConfig,
  read: ReadBlob,
): Promise<ArchivedFile[]> {
  const { index: layer } = assemblePackedSnapshot(manifest, config);
  const index = readIndex(await readSmall(read, layer, indexLimitBytes));
  return index.files.map((file) => {
    const segments = listSegments(file, index.chunkBytes);
    const mode = config.files?.[file.name]?.mode ?? 0o640;
    return {
      name: file.name,
      size: file.size,
      mode,
      segments,
      body: () => packedBody(file, segments, { index, read }),
    };
  });
}

/** Stretches of chunks that hold something. */
function listSegments({ map, size }: IndexedFile, chunkBytes: number): Extent[] {
  const used = [...map].flatMap((reference, position) => {
    const offset = position * chunkBytes;
    return reference === 0 ? [] : [{ offset, length: Math.min(chunkBytes, size - offset) }];
  });
  return shortened(joinExtents(used), size);
}

/** Segments begin and end with chunks; holes that were filled in to shorten the map are sent as zeros. */
async function* packedBody(
  file: IndexedFile,
  segments: readonly Extent[],
  { index, read }: { readonly index: SnapshotIndex; readonly read: ReadBlob },
): AsyncGenerator<Uint8Array, void, undefined> {
  for (const { offset, length } of segments) {
    for (let at = offset; at < offset + length; at += index.chunkBytes) {
      const chunk = index.chunks[(file.map[at / index.chunkBytes] ?? 0) - 1];
      if (chunk) yield await readChunk(chunk, index, read);
      else yield Buffer.alloc(Math.min(index.chunkBytes, offset + length - at));
    }
  }
}

async function readChunk(chunk: IndexedChunk, index: SnapshotIndex, read: ReadBlob): Promise<Uint8Array> {
  const pack = index.packs[chunk.pack];
  if (!pack) throw new Fault("internal", `chunk ${chunk.id} lies in no pack`);
  const bytes = await collect(read({ ...pack, offset: chunk.offset, length: chunk.length }));
  const base = chunk.base === undefined ? undefined : index.chunks[chunk.base];
  const { id, rawLength, encoding } = chunk;
  const encoded = { id, rawLength, encoding, bytes };
  try {
    return decodeChunk(base ? { ...encoded, base: await readChunk(base, index, read) } : encoded);
  } catch (error) {
    throw new Fault("invalid", `pack ${pack.digest} is damaged`, { cause: error });
  }
}

async function readSmall(read: ReadBlob, { digest, size }: Descriptor, limitBytes: number): Promise<Buffer> {
  if (size > limitBytes) throw new Fault("tooLarge", `${digest} has ${size} bytes`);
  const bytes = await collect(read({ digest, size }));
  assertDigest(bytes, digest, `blob ${digest}`);
  return bytes;
}

async function collect(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(pieces));
}

/** What was announced in the header is what must come. */
async function* exactly(
  body: AsyncIterable<Uint8Array>,
  size: number,
  name: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  let taken = 0;
  for await (const piece of body) {
    taken += piece.length;
    if (taken > size) break;
    yield piece;
  }
  if (taken !== size) throw new Fault("invalid", `${name} has another size than the snapshot says`);
}
