/**
 * The pages of a guest's memory that differ from the file it is mapped from. The guest's RAM is a private mapping: a
 * page that the guest (or a device) wrote is the process's own, all others are the file's. The kernel tells which in
 * `/proc/PID/pagemap`, and `/proc/PID/mem` gives their content; both need the right to trace the process.
 *
 * Reads go through Node's thread pool in pieces, so that the event loop stays free.
 */
import { readSync, writeSync } from "node:fs";
import { open, readFile, type FileHandle } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { Fault, toFault } from "@cocoon/core";

/** Part of the guest's RAM in the process: `address` holds what lies at `offset` of the file. */
export interface MemoryRange {
  readonly address: number;
  readonly offset: number;
  readonly length: number;
}

const pageBytes = 4096;
const entryBytes = 8;
/** Entries of the page map read at once: 512 MiB of guest memory. */
const entriesPerRead = 128 * 1024;

/** Where the process has mapped that file privately. `notFound` when it has not. */
export async function findMapping(pid: number, inode: number): Promise<readonly MemoryRange[]> {
  const ranges = parseMaps(await readFile(`/proc/${pid}/maps`, "latin1"), inode);
  if (ranges.length === 0) throw new Fault("notFound", `process ${pid} does not map the guest's memory file`);
  return ranges;
}

/** Lines are "start-end perms offset device inode path". */
export function parseMaps(text: string, inode: number): MemoryRange[] {
  return text.split("\n").flatMap((line) => {
    const match = /^([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) \S+ (\d+)/.exec(line);
    if (!match || Number(match[5]) !== inode || !match[3]?.endsWith("p")) return [];
    const [start, end, offset] = [match[1], match[2], match[4]].map((digits) =>
      Number.parseInt(digits ?? "", 16),
    );
    if (start === undefined || end === undefined || offset === undefined) return [];
    return [{ address: start, offset, length: end - start }];
  });
}

/** Throws `forbidden` when this process may not look at that one's memory. */
export async function assertPagesReadable(pid: number): Promise<void> {
  for (const name of ["pagemap", "mem"] as const) await (await openPages(pid, name)).close();
}

/** The runs of pages in these ranges that are the process's own. */
export async function privatePages(
  pid: number,
  ranges: readonly MemoryRange[],
): Promise<readonly MemoryRange[]> {
  await using file = await openPages(pid, "pagemap");
  const runs: MemoryRange[] = [];
  for (const range of ranges) await collectRuns(file, range, runs);
  return runs;
}

async function collectRuns(file: FileHandle, range: MemoryRange, runs: MemoryRange[]): Promise<void> {
  const pages = range.length / pageBytes;
  const buffer = Buffer.alloc(Math.min(pages, entriesPerRead) * entryBytes);
  for (let first = 0; first < pages; first += entriesPerRead) {
    const count = Math.min(entriesPerRead, pages - first);
    const position = (range.address / pageBytes + first) * entryBytes;
    await readFully(file, buffer.subarray(0, count * entryBytes), position);
    appendRuns(buffer.subarray(0, count * entryBytes), cutPiece(range, first, count), runs);
  }
}

function cutPiece(range: MemoryRange, firstPage: number, pages: number): MemoryRange {
  const skip = firstPage * pageBytes;
  return { address: range.address + skip, offset: range.offset + skip, length: pages * pageBytes };
}

/** Looks at page map entries and appends the runs of private pages, joined with the last run where they touch. */
export function appendRuns(entries: Buffer, piece: MemoryRange, runs: MemoryRange[]): void {
  const pages = entries.length / entryBytes;
  let page = 0;
  while (page < pages) {
    if (!isPrivate(entries, page)) {
      page += 1;
      continue;
    }
    const begin = page;
    while (page < pages && isPrivate(entries, page)) page += 1;
    append(runs, cutPiece(piece, begin, page - begin));
  }
}

function append(runs: MemoryRange[], run: MemoryRange): void {
  const last = runs.at(-1);
  const touches =
    last && last.address + last.length === run.address && last.offset + last.length === run.offset;
  if (last && touches) runs[runs.length - 1] = { ...last, length: last.length + run.length };
  else runs.push(run);
}

/** Swapped out (bit 62), or present (bit 63) and not the file's (bit 61). Those bits are in the upper half. */
function isPrivate(entries: Buffer, page: number): boolean {
  const upper = entries.readUInt32LE(page * entryBytes + 4) >>> 29;
  return (upper & 0b010) !== 0 || (upper >>> 2 === 1 && (upper & 0b001) === 0);
}

export interface CopyPages {
  readonly pid: number;
  readonly runs: readonly MemoryRange[];
  readonly target: FileHandle;
  /** The target reads as zero wherever nothing was written: zero pages need not be. */
  readonly targetIsEmpty: boolean;
}

const copyBytes = 1024 * 1024;
const zeroes = Buffer.alloc(copyBytes);
/**
 * Dirty memory is a few large runs and thousands of single pages. A page takes microseconds to copy, and ten times as
 * long to hand to a thread and back: small runs are copied at once, in slices that leave the event loop its turn.
 */
const smallBytes = 64 * 1024;
const sliceMs = 2;

/** Writes the content of the runs to the same offsets of the target: one state of the process only while it is stopped. */
export async function copyPages(options: CopyPages): Promise<void> {
  await using memory = await openPages(options.pid, "mem");
  await copySmallRuns(memory, options);
  await copyLargeRuns(memory, options);
}

async function copySmallRuns(memory: FileHandle, options: CopyPages): Promise<void> {
  const buffer = Buffer.allocUnsafe(smallBytes);
  let sliceEnd = performance.now() + sliceMs;
  for (const run of options.runs.filter((each) => each.length <= smallBytes)) {
    const content = buffer.subarray(0, run.length);
    if (readSync(memory.fd, content, 0, run.length, run.address) !== run.length) throw ended();
    if (mustWrite(content, options)) writeSync(options.target.fd, content, 0, run.length, run.offset);
    if (performance.now() < sliceEnd) continue;
    await setImmediate();
    sliceEnd = performance.now() + sliceMs;
  }
}

/** With two buffers: one is being read while the other is being written. */
async function copyLargeRuns(memory: FileHandle, options: CopyPages): Promise<void> {
  let [current, other] = [Buffer.allocUnsafe(copyBytes), Buffer.allocUnsafe(copyBytes)];
  let writing: Promise<unknown> = Promise.resolve();
  for (const piece of pieces(options.runs.filter((run) => run.length > smallBytes))) {
    const content = current.subarray(0, piece.length);
    await readFully(memory, content, piece.address);
    await writing;
    writing = mustWrite(content, options)
      ? options.target.write(content, 0, piece.length, piece.offset)
      : Promise.resolve();
    writing.catch(() => undefined); // awaited in the next round
    [current, other] = [other, current];
  }
  await writing;
}

function mustWrite(content: Buffer, { targetIsEmpty }: CopyPages): boolean {
  return !targetIsEmpty || !content.equals(zeroes.subarray(0, content.length));
}

function* pieces(runs: readonly MemoryRange[]): Generator<MemoryRange> {
  for (const run of runs) {
    for (let done = 0; done < run.length; done += copyBytes) {
      const length = Math.min(copyBytes, run.length - done);
      yield { address: run.address + done, offset: run.offset + done, length };
    }
  }
}

export function totalBytes(runs: readonly MemoryRange[]): number {
  return runs.reduce((sum, run) => sum + run.length, 0);
}

/** `forbidden` where the system does not let us look: another user's process, or Yama. */
async function openPages(pid: number, name: "pagemap" | "mem"): Promise<FileHandle> {
  try {
    return await open(`/proc/${pid}/${name}`, "r");
  } catch (error) {
    throw toFault(error, `cannot read the memory of process ${pid}`);
  }
}

async function readFully(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  let done = 0;
  while (done < buffer.length) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, position + done);
    if (bytesRead === 0) throw ended();
    done += bytesRead;
  }
}

function ended(): Fault {
  return new Fault("unavailable", "the process ended while its memory was read");
}
