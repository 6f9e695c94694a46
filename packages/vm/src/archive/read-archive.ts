/** Reads a snapshot archive into a directory. Nothing in it is trusted: names, sizes, maps and counts are checked. */
import { open, type FileHandle } from "node:fs/promises";
import { basename, join } from "node:path";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { ByteReader } from "./byte-reader.ts";
import { blockBytes, nonZeroPieces, type Extent } from "./sparse.ts";
import {
  paddingOf,
  readHeader,
  readPaxRecords,
  sparseMapKey,
  sparseSizeKey,
  tarBlock,
  type TarHeader,
} from "./tar-format.ts";
import { envelopeName } from "./write-archive.ts";

const maxEnvelopeBytes = 64 * 1024 * 1024;
const maxPaxBytes = 64 * 1024 * 1024;
const maxFiles = 1024;
const maxFileBytes = 64 * 2 ** 40;
const pieceBytes = 1024 * 1024;

/** Writes the archive's files into the empty directory and returns the text of `snapshot.json`. */
export async function readArchive(archive: Readable, directory: string, options: Abortable): Promise<string> {
  const reader = await ByteReader.open(archive, options);
  try {
    const plain = isGzip(await reader.peek(2)) ? await unzipped(reader, options) : reader;
    return await readEntries(plain, directory, options);
  } catch (error) {
    options.signal.throwIfAborted();
    throw toFault(error);
  } finally {
    archive.destroy();
  }
}

function isGzip(head: Buffer): boolean {
  return head.length === 2 && head[0] === 0x1f && head[1] === 0x8b;
}

/** The end of the compressed stream is read too: its checksum is the only proof that it is whole. */
async function unzipped(reader: ByteReader, options: Abortable): Promise<ByteReader> {
  const unzip = createGunzip();
  pipeline(reader.toStream(), unzip, () => undefined); // errors come out of `unzip`
  return ByteReader.open(unzip, options);
}

async function readEntries(reader: ByteReader, directory: string, options: Abortable): Promise<string> {
  let envelope: string | undefined;
  let records = new Map<string, string>();
  for (let count = 0; ;) {
    options.signal.throwIfAborted();
    const block = await reader.tryRead(tarBlock);
    const header = block && readHeader(block);
    if (!header) break;
    if (header.type === "x") {
      records = readPaxRecords(await readBody(reader, header.size, maxPaxBytes));
      continue;
    }
    const entry = {
      ...header,
      size: sizeOf(header, records),
      name: basename(records.get("path") ?? header.name),
    };
    if (!isRegular(entry)) await skip(reader, entry.size);
    else if (entry.name === envelopeName)
      envelope = (await readBody(reader, entry.size, maxEnvelopeBytes)).toString("utf8");
    else {
      count += 1;
      if (count > maxFiles) throw invalid(`more than ${maxFiles} files`);
      await extract(reader, { entry, records, directory });
    }
    records = new Map();
  }
  await reader.drain();
  if (envelope === undefined) throw invalid("snapshot.json not found");
  return envelope;
}

function isRegular({ type }: TarHeader): boolean {
  return type === "0" || type === "\0" || type === "";
}

function sizeOf(header: TarHeader, records: ReadonlyMap<string, string>): number {
  const size = records.has("size") ? Number(records.get("size")) : header.size;
  if (!Number.isSafeInteger(size) || size < 0) throw invalid(`${header.name} has an absurd size`);
  return size;
}

async function readBody(reader: ByteReader, size: number, limit: number): Promise<Buffer> {
  if (size > limit)
    throw new Fault("tooLarge", "invalid snapshot archive: an entry is larger than it may be");
  const body = await reader.read(size);
  await reader.read(paddingOf(size));
  return body;
}

async function skip(reader: ByteReader, size: number): Promise<void> {
  for (let left = size + paddingOf(size); left > 0; left -= Math.min(left, pieceBytes))
    await reader.read(Math.min(left, pieceBytes));
}

interface Extraction {
  readonly entry: TarHeader;
  readonly records: ReadonlyMap<string, string>;
  readonly directory: string;
}

async function extract(reader: ByteReader, { entry, records, directory }: Extraction): Promise<void> {
  if (!/^[\w.+-]{1,255}$/.test(entry.name) || entry.name.startsWith("."))
    throw invalid(`file name "${entry.name}"`);
  const map = records.get(sparseMapKey);
  const size = map === undefined ? entry.size : Number(records.get(sparseSizeKey));
  if (!Number.isSafeInteger(size) || size < 0 || size > maxFileBytes)
    throw invalid(`${entry.name} has an absurd size`);
  const extents =
    map === undefined ? [{ offset: 0, length: entry.size }] : readMap(map, { size, body: entry.size });
  const file = await openNew(join(directory, entry.name));
  try {
    await file.truncate(size);
    for (const extent of extents) await writeExtent(reader, file, extent);
  } finally {
    await file.close();
  }
  await reader.read(paddingOf(entry.size));
}

async function openNew(path: string): Promise<FileHandle> {
  try {
    return await open(path, "wx", 0o600);
  } catch (error) {
    throw toFault(error, "invalid snapshot archive");
  }
}

/** What is zero stays a hole, in sparse and ordinary entries alike. */
async function writeExtent(reader: ByteReader, file: FileHandle, extent: Extent): Promise<void> {
  for (let done = 0; done < extent.length;) {
    // Pieces end at block borders of the file, so that zero blocks are recognised.
    const offset = extent.offset + done;
    const length = Math.min(pieceBytes - (offset % blockBytes), extent.length - done);
    const content = await reader.read(length);
    for (const piece of nonZeroPieces(content))
      await file.write(content, piece.offset, piece.length, offset + piece.offset);
    done += length;
  }
}

const mapSchema = z.array(z.object({ o: z.int().min(0), l: z.int().min(0) })).max(2 ** 22);

function readMap(text: string, { size, body }: { readonly size: number; readonly body: number }): Extent[] {
  let extents: Extent[];
  try {
    extents = mapSchema.parse(JSON.parse(text)).map(({ o, l }) => ({ offset: o, length: l }));
  } catch (error) {
    throw new Fault("invalid", "invalid snapshot archive: malformed sparse map", { cause: error });
  }
  let [end, sum] = [0, 0];
  for (const { offset, length } of extents) {
    if (offset < end || offset + length > size)
      throw invalid("a sparse map overlaps or leads outside the file");
    end = offset + length;
    sum += length;
  }
  if (sum !== body) throw invalid("a sparse map does not fit its entry");
  return extents;
}

function invalid(why: string): Fault {
  return new Fault("invalid", `invalid snapshot archive: ${why}`);
}
