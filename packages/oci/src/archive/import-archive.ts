/** Reads a snapshot archive into a directory: everything and checked, or nothing. */
import { basename } from "node:path/posix";
import { Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { formatSnapshotEnvelope, readSnapshotEnvelope, type SnapshotEnvelope } from "@cocoon/contract";
import { Fault, isFault, toFault, type Abortable } from "@cocoon/core";
import { DigestCheck } from "../digest.ts";
import { startDirectory, type DirectoryBuild } from "../snapshot/build-directory.ts";
import { envelopeName } from "../snapshot/file-name.ts";
import { parseJson } from "../parse-json.ts";
import { SegmentWriter } from "../snapshot/segments.ts";
import { dataBytes, readSparseMap, type Extent } from "../snapshot/sparse-map.ts";
import { ByteStream } from "./byte-stream.ts";
import { paxRecord } from "./export-archive.ts";
import { assertPaxSize, blockBytes, malformed, readHeader, readPax, type TarHeader } from "./tar-header.ts";

export interface ImportArchiveOptions extends Abortable {
  /** Tar, or tar in gzip. */
  readonly archive: AsyncIterable<Uint8Array>;
  /** Where the snapshot goes; must not exist. */
  readonly directory: string;
  readonly onBytes?: (bytes: number) => void;
}

const mostEntries = 10_000;
const longestEnvelopeBytes = 16 * 1024 * 1024;
const longestNameBytes = 4096;

export async function importArchive(options: ImportArchiveOptions): Promise<SnapshotEnvelope> {
  await using build = await startDirectory(options.directory);
  const input = await unwrapped(options.archive);
  try {
    const envelope = await readEntries(input, build, options);
    await build.addEnvelope(formatSnapshotEnvelope(envelope));
    await build.finish();
    return envelope;
  } catch (error) {
    options.signal.throwIfAborted();
    if (isFault(error)) throw error;
    throw toFault(error, "reading the snapshot archive");
  } finally {
    await input.close();
  }
}

async function unwrapped(archive: AsyncIterable<Uint8Array>): Promise<ByteStream> {
  const outer = new ByteStream(archive);
  const magic = await outer.peek(2);
  if (magic[0] !== 0x1f || magic[1] !== 0x8b) return outer;
  const source = Readable.from(outer.all(), { objectMode: false });
  const unpacked = createGunzip();
  source.on("error", (error) => unpacked.destroy(error));
  unpacked.on("close", () => source.destroy());
  return new ByteStream(gunzipped(source.pipe(unpacked)));
}

async function* gunzipped(stream: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    yield* stream;
  } catch (error) {
    throw new Fault("invalid", "the archive cannot be decompressed", { cause: error });
  }
}

async function readEntries(
  input: ByteStream,
  build: DirectoryBuild,
  { signal, onBytes }: ImportArchiveOptions,
): Promise<SnapshotEnvelope> {
  let envelope: SnapshotEnvelope | undefined;
  for await (const entry of entriesOf(input)) {
    signal.throwIfAborted();
    // Names are flattened as the runtime does it: nothing leads out of the directory.
    const name = basename(entry.name);
    if (entry.type !== "0") await input.skip(entry.size);
    else if (name === envelopeName) envelope = await readEnvelope(input, entry);
    else await readFile(input, { ...entry, name }, build);
    await input.skip((blockBytes - (entry.size % blockBytes)) % blockBytes);
    onBytes?.(entry.size);
  }
  if (!envelope) throw malformed(`it holds no ${envelopeName}`);
  return envelope;
}

interface Entry extends TarHeader {
  readonly pax: Readonly<Record<string, string>>;
}

/** Files with what the headers before them say about them. The caller takes each body before the next step. */
async function* entriesOf(input: ByteStream): AsyncGenerator<Entry, void, undefined> {
  let pax: Record<string, string> = {};
  let longName: string | undefined;
  for (let count = 0; count <= mostEntries; count += 1) {
    const block = await input.tryTake(blockBytes);
    const header = block && readHeader(block);
    if (!header) return;
    switch (header.type) {
      case "x":
        assertPaxSize(header.size);
        pax = readPax(await takeBody(input, header.size));
        break;
      case "g":
        await takeBody(input, header.size);
        break;
      case "L":
        longName = await readLongName(input, header.size);
        break;
      default:
        yield { ...header, name: pax["path"] ?? longName ?? header.name, size: sizeOf(header, pax), pax };
        pax = {};
        longName = undefined;
    }
  }
  throw malformed(`it holds more than ${mostEntries} entries`);
}

async function takeBody(input: ByteStream, size: number): Promise<Buffer> {
  assertPaxSize(size);
  const body = size === 0 ? Buffer.alloc(0) : await input.tryTake(size);
  if (!body) throw malformed("it ends in the middle");
  await input.skip((blockBytes - (size % blockBytes)) % blockBytes);
  return body;
}

async function readLongName(input: ByteStream, size: number): Promise<string> {
  if (size > longestNameBytes) throw malformed("a name is too long");
  return (await takeBody(input, size)).toString("utf8").replace(/\0+$/, "");
}

function sizeOf(header: TarHeader, pax: Readonly<Record<string, string>>): number {
  const text = pax["size"];
  if (text === undefined) return header.size;
  const size = Number(text);
  if (!/^\d+$/.test(text) || !Number.isSafeInteger(size)) throw malformed("a PAX size is not a number");
  return size;
}

async function readEnvelope(input: ByteStream, entry: Entry): Promise<SnapshotEnvelope> {
  if (entry.size > longestEnvelopeBytes) throw malformed(`${envelopeName} has ${entry.size} bytes`);
  const bytes = await input.tryTake(entry.size);
  return readSnapshotEnvelope(parseJson(bytes ?? Buffer.alloc(0), envelopeName));
}

async function readFile(input: ByteStream, entry: Entry, build: DirectoryBuild): Promise<void> {
  const { size, segments } = layoutOf(entry);
  const handle = await build.add({ name: entry.name, size, mode: entry.mode });
  const writer = new SegmentWriter(handle.fd, segments);
  const digest = entry.pax[paxRecord.digest];
  const check = digest === undefined ? undefined : new DigestCheck(digest, `${entry.name} in the archive`);
  for await (const piece of input.pass(entry.size)) {
    check?.update(piece);
    await writer.take(piece);
  }
  writer.finish();
  check?.verify();
}

function layoutOf(entry: Entry): { readonly size: number; readonly segments: readonly Extent[] } {
  const map = entry.pax[paxRecord.sparseMap];
  const whole = entry.size === 0 ? [] : [{ offset: 0, length: entry.size }];
  if (map === undefined) return { size: entry.size, segments: whole };
  const size = Number(entry.pax[paxRecord.sparseSize] ?? Number.NaN);
  if (!Number.isSafeInteger(size) || size < 0) throw malformed(`${entry.name} has a sparse map but no size`);
  const segments = readSparseMap(map, size);
  if (dataBytes(segments) !== entry.size)
    throw malformed(`${entry.name}: the sparse map does not describe its ${entry.size} bytes`);
  return { size, segments };
}
