/** A worker thread: takes tasks, answers each. All work is synchronous, one task after the other. */
import { createHash, hash } from "node:crypto";
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { parentPort } from "node:worker_threads";
import { constants, zstdCompressSync } from "node:zlib";
import { chunkId, CorruptChunk, decodeChunk, encodeChunk, isZero } from "./codec.ts";
import type {
  AnswerMessage,
  ChunkLocator,
  DecodeItem,
  DecodeResult,
  DecodeTask,
  DigestResult,
  DigestTask,
  EncodeItem,
  EncodeResult,
  EncodeTask,
  FilePlace,
  FrameResult,
  FrameTask,
  HashResult,
  HashTask,
  RawCandidate,
  ScanResult,
  ScanTask,
  Task,
  TaskMessage,
  TaskResults,
} from "./worker-protocol.ts";

const pageBytes = 4096;
const pieceBytes = 1024 * 1024;
const maxReportedProblems = 3;
/** Content that is only looked at does not leave the thread, so its memory is used again. */
let scratch = Buffer.alloc(0);

function getScratch(length: number): Buffer {
  if (scratch.length < length) scratch = Buffer.allocUnsafeSlow(length);
  return scratch.subarray(0, length);
}

function run(task: Task): TaskResults[Task["kind"]] {
  switch (task.kind) {
    case "hash":
      return hashRange(task);
    case "encode":
      return encode(task);
    case "decode":
      return decode(task);
    case "frame":
      return frame(task);
    case "digest":
      return digest(task);
    case "scan":
      return scan(task);
    default:
      throw new Error("unknown task");
  }
}

function hashRange({ fd, offset, length, chunkBytes }: HashTask): HashResult {
  const content = fill(getScratch(length), { fd, offset });
  const digests = new Uint8Array(Math.ceil(length / chunkBytes) * 32);
  for (let at = 0; at < length; at += chunkBytes) {
    const chunk = content.subarray(at, at + chunkBytes);
    if (!isZero(chunk)) digests.set(hash("sha256", chunk, "buffer"), (at / chunkBytes) * 32);
  }
  return { digests };
}

function encode({ items, level }: EncodeTask): EncodeResult {
  const files = new OpenFiles();
  try {
    const room = getScratch(items.reduce((sum, item) => sum + item.rawLength, 0));
    let at = 0;
    const encoded = items.map((item) => {
      const content = fill(room.subarray(at, at + item.rawLength), item);
      at += item.rawLength;
      return encodeItem(item, content, { level, files });
    });
    const bytes = Buffer.concat(encoded.map((each) => each.bytes));
    const chunks = encoded.map((each) => ({ length: each.bytes.length, encoding: each.encoding }));
    return { bytes: owned(bytes), chunks };
  } finally {
    files.close();
  }
}

function encodeItem(
  item: EncodeItem,
  content: Buffer,
  { level, files }: { readonly level: number; readonly files: OpenFiles },
): ReturnType<typeof encodeChunk> {
  if (chunkId(content) !== item.id)
    throw new CorruptChunk(`the source changed at byte ${item.offset} while it was read`);
  const base = item.base && tryReadBase(item.base, files);
  return encodeChunk(content, base ? { level, base } : { level });
}

/** A base that is damaged is no base: the chunk is then encoded by itself. */
function tryReadBase(base: ChunkLocator | RawCandidate, files: OpenFiles): Uint8Array | undefined {
  try {
    return readCandidate(base, files);
  } catch {
    return undefined;
  }
}

function decode({ items }: DecodeTask): DecodeResult {
  const files = new OpenFiles();
  const problems: string[] = [];
  try {
    const found = items.map((item) => {
      const { content, index } = find(item, files, problems);
      if (content) for (const target of item.targets) writeAll(target, content);
      return index;
    });
    return { found, problems: problems.slice(0, maxReportedProblems) };
  } finally {
    files.close();
  }
}

function find(
  item: DecodeItem,
  files: OpenFiles,
  problems: string[],
): { readonly index: number; readonly content?: Uint8Array } {
  for (const [index, candidate] of item.candidates.entries()) {
    try {
      return { index, content: readCandidate(candidate, files) };
    } catch (error) {
      // A raw candidate is only a guess; a stored chunk that does not fit is damage worth telling.
      if ("path" in candidate) problems.push(error instanceof Error ? error.message : String(error));
    }
  }
  return { index: -1 };
}

function readCandidate(candidate: ChunkLocator | RawCandidate, files: OpenFiles): Uint8Array {
  if (!("path" in candidate))
    return decodeChunk({ ...candidate, encoding: "raw", bytes: readExactly(candidate, candidate.rawLength) });
  const bytes = readExactly({ fd: files.open(candidate.path), offset: candidate.offset }, candidate.length);
  const { base, ...chunk } = candidate;
  return decodeChunk({ ...chunk, bytes, ...(base ? { base: readCandidate(base, files) } : {}) });
}

function frame({ fd, offset, length, level }: FrameTask): FrameResult {
  const content = readExactly({ fd, offset }, length);
  const bytes =
    level === 0
      ? content
      : zstdCompressSync(content, {
          params: { [constants.ZSTD_c_compressionLevel]: level },
          pledgedSrcSize: length,
          chunkSize: Math.max(64 * 1024, Math.ceil(length / 2)),
        });
  return { bytes: owned(bytes), digest: `sha256:${hash("sha256", bytes, "hex")}` };
}

function digest({ fd, ranges }: DigestTask): DigestResult {
  const sum = createHash("sha256");
  for (const range of ranges) for (const piece of pieces({ fd, ...range })) sum.update(piece);
  return { digest: `sha256:${sum.digest("hex")}` };
}

function scan(task: ScanTask): ScanResult {
  const ranges: { offset: number; length: number }[] = [];
  let at = task.offset;
  for (const piece of pieces(task)) {
    for (let page = 0; page < piece.length; page += pageBytes) {
      const content = piece.subarray(page, page + pageBytes);
      if (isZero(content)) continue;
      const last = ranges.at(-1);
      if (last && last.offset + last.length === at + page) last.length += content.length;
      else ranges.push({ offset: at + page, length: content.length });
    }
    at += piece.length;
  }
  return { ranges };
}

/** Pieces of a range, in memory that the next piece overwrites. */
function* pieces({ fd, offset, length }: FilePlace & { readonly length: number }): Generator<Buffer> {
  for (let at = 0; at < length; at += pieceBytes)
    yield fill(getScratch(Math.min(pieceBytes, length - at)), { fd, offset: offset + at });
}

function readExactly(place: FilePlace, length: number): Buffer {
  return fill(Buffer.allocUnsafeSlow(length), place);
}

function fill(buffer: Buffer, { fd, offset }: FilePlace): Buffer {
  let at = 0;
  while (at < buffer.length) {
    const read = readSync(fd, buffer, at, buffer.length - at, offset + at);
    if (read === 0)
      throw new CorruptChunk(`the file ends at byte ${offset + at}, before ${offset + buffer.length}`);
    at += read;
  }
  return buffer;
}

function writeAll({ fd, offset }: FilePlace, content: Uint8Array): number {
  let at = 0;
  while (at < content.length) at += writeSync(fd, content, at, content.length - at, offset + at);
  return at;
}

/** Files opened for one task. */
class OpenFiles {
  readonly #descriptors = new Map<string, number>();

  open(path: string): number {
    const fd = this.#descriptors.get(path) ?? openSync(path, "r");
    this.#descriptors.set(path, fd);
    return fd;
  }

  close(): void {
    for (const fd of this.#descriptors.values()) closeSync(fd);
  }
}

/** Bytes alone in their memory, so that they can be handed over. */
function owned(bytes: Buffer): Uint8Array<ArrayBuffer> {
  const alone = bytes.byteOffset === 0 && bytes.byteLength === bytes.buffer.byteLength;
  if (alone && bytes.buffer instanceof ArrayBuffer) return new Uint8Array(bytes.buffer);
  return new Uint8Array(bytes);
}

function transferable(result: TaskResults[Task["kind"]]): ArrayBuffer[] {
  if ("bytes" in result && result.bytes.buffer instanceof ArrayBuffer) return [result.bytes.buffer];
  if ("digests" in result && result.digests.buffer instanceof ArrayBuffer) return [result.digests.buffer];
  return [];
}

parentPort?.on("message", ({ number, task }: TaskMessage) => {
  try {
    const result = run(task);
    parentPort?.postMessage({ number, result } satisfies AnswerMessage, transferable(result));
  } catch (error) {
    const { name, message, code } = error as Error & { code?: string };
    const failure = { name, message, ...(code === undefined ? {} : { code }) };
    parentPort?.postMessage({ number, error: failure } satisfies AnswerMessage, []);
  }
});
