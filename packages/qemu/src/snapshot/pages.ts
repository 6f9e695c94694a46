/**
 * The pages of a guest's memory that differ from the file it is mapped from. The guest's RAM is a private mapping: a
 * page that the guest (or a device) wrote is the process's own, all others are the file's. The kernel tells which in
 * `/proc/PID/pagemap`, and `/proc/PID/mem` gives their content; both need the right to trace the process.
 */
import { open, readFile, type FileHandle } from "node:fs/promises";
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
  return cut(range, firstPage * pageBytes, pages * pageBytes);
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

export function totalBytes(runs: readonly MemoryRange[]): number {
  return runs.reduce((sum, run) => sum + run.length, 0);
}

/** The pages of the first runs that are in none of the others. Both are in the order of their offsets. */
export function subtractRuns(runs: readonly MemoryRange[], others: readonly MemoryRange[]): MemoryRange[] {
  const rest: MemoryRange[] = [];
  let next = 0;
  for (const run of runs) {
    let at = 0;
    while (next < others.length && getEnd(others[next]) <= run.offset) next += 1;
    for (let each = next; each < others.length; each += 1) {
      const other = others[each];
      if (!other || other.offset >= getEnd(run)) break;
      const begin = other.offset - run.offset;
      if (begin > at) rest.push(cut(run, at, begin - at));
      at = Math.max(at, begin + other.length);
    }
    if (at < run.length) rest.push(cut(run, at, run.length - at));
  }
  return rest;
}

function getEnd(run: MemoryRange | undefined): number {
  return run ? run.offset + run.length : 0;
}

function cut(run: MemoryRange, skip: number, length: number): MemoryRange {
  return { address: run.address + skip, offset: run.offset + skip, length };
}

/** `forbidden` where the system does not let us look: another user's process, or Yama. */
export async function openPages(pid: number, name: "pagemap" | "mem"): Promise<FileHandle> {
  try {
    return await open(`/proc/${pid}/${name}`, "r");
  } catch (error) {
    throw toFault(error, `cannot read the memory of process ${pid}`);
  }
}

export async function readFully(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  let done = 0;
  while (done < buffer.length) {
    const { bytesRead } = await file.read(buffer, done, buffer.length - done, position + done);
    if (bytesRead === 0) throw ended();
    done += bytesRead;
  }
}

export function ended(): Fault {
  return new Fault("unavailable", "the process ended while its memory was read");
}
