/**
 * The index of a packed snapshot: which chunks its files consist of and where each chunk lies. FORMAT.md draws the
 * layout. Reading checks everything that can be checked without the packs, so that the numbers of a
 * parsed index can be trusted.
 */
import { encodings } from "../chunks/codec.ts";
import { assertFileName } from "../snapshot/file-name.ts";
import { ByteReader, ByteWriter } from "./varint.ts";
import type { StoredChunk } from "../chunks/worker-protocol.ts";

export interface Pack {
  readonly digest: string;
  readonly size: number;
}

export interface IndexedChunk extends StoredChunk {
  /** Number of the pack. */
  readonly pack: number;
  /** Number of the chunk that a delta stands on; that one is never a delta itself. */
  readonly base?: number;
}

export interface IndexedFile {
  readonly name: string;
  readonly size: number;
  /** One entry per chunk of the file: 0 = all zero, n = chunk number n - 1. */
  readonly map: Uint32Array;
}

export interface SnapshotIndex {
  readonly chunkBytes: number;
  readonly packs: readonly Pack[];
  /** Ordered by pack and offset. */
  readonly chunks: readonly IndexedChunk[];
  readonly files: readonly IndexedFile[];
}

const magic = Buffer.from("COCOONX1", "latin1");
const limits = {
  chunkBytes: 4 * 1024 * 1024,
  packs: 65_536,
  packBytes: 1024 ** 3,
  chunks: 2 ** 26,
  files: 4096,
  fileBytes: 2 ** 44,
  positions: 2 ** 28,
  nameBytes: 255,
};
/** Above this nothing is read into memory as an index. */
export const indexLimitBytes = 1024 ** 3;
const shortFlag = 0x80;

export function writeIndex(index: SnapshotIndex): Buffer {
  const out = new ByteWriter();
  out.bytes(magic);
  out.number(index.chunkBytes);
  out.number(index.packs.length);
  const byPack = Map.groupBy(index.chunks, (chunk) => chunk.pack);
  for (const [number, pack] of index.packs.entries()) {
    const chunks = byPack.get(number) ?? [];
    out.hex(pack.digest.slice("sha256:".length));
    out.number(pack.size);
    out.number(chunks.length);
    let end = 0;
    for (const chunk of chunks) {
      writeChunk(out, chunk, { gap: chunk.offset - end, chunkBytes: index.chunkBytes });
      end = chunk.offset + chunk.length;
    }
  }
  out.number(index.files.length);
  for (const file of index.files) writeFile(out, file);
  return out.finish();
}

function writeChunk(
  out: ByteWriter,
  chunk: IndexedChunk,
  { gap, chunkBytes }: { gap: number; chunkBytes: number },
): void {
  const short = chunk.rawLength !== chunkBytes;
  out.hex(chunk.id);
  out.byte(encodings.indexOf(chunk.encoding) | (short ? shortFlag : 0));
  out.number(gap);
  out.number(chunk.length);
  if (short) out.number(chunk.rawLength);
  if (chunk.encoding === "delta") out.number(chunk.base ?? -1);
}

/** Runs of zero chunks and of chunks whose numbers follow each other. */
function writeFile(out: ByteWriter, file: IndexedFile): void {
  out.text(file.name);
  out.number(file.size);
  let expected = 1;
  for (const run of splitRuns(file.map)) {
    out.number(run.count * 2 + (run.first === 0 ? 0 : 1));
    if (run.first === 0) continue;
    out.signed(run.first - expected);
    expected = run.first + run.count;
  }
}

function* splitRuns(map: Uint32Array): Generator<{ readonly first: number; readonly count: number }> {
  for (let start = 0; start < map.length;) {
    const first = map[start] ?? 0;
    const step = first === 0 ? 0 : 1;
    let end = start + 1;
    while (end < map.length && map[end] === first + (end - start) * step) end += 1;
    yield { first, count: end - start };
    start = end;
  }
}

export function readIndex(bytes: Uint8Array): SnapshotIndex {
  const input = new ByteReader(bytes, "snapshot index");
  if (!input.bytes(magic.length, "magic").equals(magic)) throw input.malformed("it does not start as one");
  const chunkBytes = input.number(limits.chunkBytes, "chunk size");
  if (chunkBytes < 4096 || (chunkBytes & (chunkBytes - 1)) !== 0)
    throw input.malformed(`chunks of ${chunkBytes} bytes`);
  const packs: Pack[] = [];
  const chunks: IndexedChunk[] = [];
  const packCount = input.number(limits.packs, "number of packs");
  for (let number = 0; number < packCount; number += 1) readPack(input, { packs, chunks, chunkBytes });
  assertBases(chunks, input);
  const fileCount = input.number(limits.files, "number of files");
  const files: IndexedFile[] = [];
  for (let count = 0; count < fileCount; count += 1) files.push(readFile(input, { chunks, chunkBytes }));
  if (input.left > 0) throw input.malformed(`${input.left} bytes follow its end`);
  assertDistinct(packs, files, input);
  return { chunkBytes, packs, chunks, files };
}

function readPack(
  input: ByteReader,
  into: { readonly packs: Pack[]; readonly chunks: IndexedChunk[]; readonly chunkBytes: number },
): void {
  const digest = `sha256:${input.hex(32, "pack digest")}`;
  const size = input.number(limits.packBytes, "pack size");
  const count = input.number(limits.chunks - into.chunks.length, "number of chunks");
  let at = 0;
  for (let number = 0; number < count; number += 1) {
    const chunk = readChunk(input, { pack: into.packs.length, at, chunkBytes: into.chunkBytes });
    at = chunk.offset + chunk.length;
    if (at > size) throw input.malformed(`chunk ${chunk.id} lies outside its pack`);
    into.chunks.push(chunk);
  }
  into.packs.push({ digest, size });
}

function readChunk(
  input: ByteReader,
  { pack, at, chunkBytes }: { pack: number; at: number; chunkBytes: number },
): IndexedChunk {
  const id = input.hex(32, "chunk digest");
  const flags = input.byte("chunk flags");
  const encoding = encodings[flags & ~shortFlag];
  if (!encoding) throw input.malformed(`chunk ${id} has an unknown encoding`);
  const offset = at + input.number(limits.packBytes, "gap");
  const length = input.number(limits.packBytes, "chunk length");
  const rawLength = flags & shortFlag ? input.number(chunkBytes, "content length") : chunkBytes;
  if (rawLength === 0 || length === 0 || (encoding === "raw" && length !== rawLength))
    throw input.malformed(`chunk ${id} has impossible lengths`);
  const place = { id, pack, offset, length, rawLength, encoding };
  return encoding === "delta" ? { ...place, base: input.number(limits.chunks, "base") } : place;
}

/** A delta stands on a chunk that needs nothing else: one step and no circle. */
function assertBases(chunks: readonly IndexedChunk[], input: ByteReader): void {
  for (const chunk of chunks) {
    if (chunk.base === undefined) continue;
    const base = chunks[chunk.base];
    if (!base || base.encoding === "delta")
      throw input.malformed(`chunk ${chunk.id} stands on no whole chunk`);
  }
}

function readFile(
  input: ByteReader,
  { chunks, chunkBytes }: { readonly chunks: readonly IndexedChunk[]; readonly chunkBytes: number },
): IndexedFile {
  const name = input.text(limits.nameBytes, "file name");
  assertFileName(name);
  const size = input.number(limits.fileBytes, "file size");
  const positions = Math.ceil(size / chunkBytes);
  if (positions > limits.positions) throw input.malformed(`file ${name} has too many chunks`);
  const map = new Uint32Array(positions);
  let at = 0;
  let expected = 1;
  while (at < positions) {
    const head = input.number((positions - at) * 2 + 1, "run");
    const count = Math.floor(head / 2);
    if (count === 0 || count > positions - at) throw input.malformed(`file ${name} has an impossible run`);
    if (head % 2 === 1) {
      const first = expected + input.signed(limits.chunks, "chunk number");
      if (first < 1 || first + count - 1 > chunks.length)
        throw input.malformed(`file ${name} names chunks that are not there`);
      for (let each = 0; each < count; each += 1) map[at + each] = first + each;
      expected = first + count;
    }
    at += count;
  }
  assertLengths({ name, size, map }, chunks, { input, chunkBytes });
  return { name, size, map };
}

/** Every chunk is full except the one at the very end of its file. */
function assertLengths(
  file: IndexedFile,
  chunks: readonly IndexedChunk[],
  { input, chunkBytes }: { readonly input: ByteReader; readonly chunkBytes: number },
): void {
  for (const [position, reference] of file.map.entries()) {
    const chunk = reference === 0 ? undefined : chunks[reference - 1];
    if (chunk && chunk.rawLength !== Math.min(chunkBytes, file.size - position * chunkBytes))
      throw input.malformed(`chunk ${chunk.id} does not fit its place in ${file.name}`);
  }
}

function assertDistinct(packs: readonly Pack[], files: readonly IndexedFile[], input: ByteReader): void {
  if (new Set(packs.map((each) => each.digest)).size !== packs.length)
    throw input.malformed("a pack is listed twice");
  if (new Set(files.map((each) => each.name)).size !== files.length)
    throw input.malformed("a file is listed twice");
}
