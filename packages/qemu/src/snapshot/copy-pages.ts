/** Copies pages of a guest's memory into a file. Large reads go through Node's thread pool, so that the event loop stays free. */
import { readSync, writeSync } from "node:fs";
import type { FileHandle } from "node:fs/promises";
import { setImmediate } from "node:timers/promises";
import { ended, openPages, readFully, type MemoryRange } from "./pages.ts";

export interface CopyPages {
  readonly pid: number;
  readonly runs: readonly MemoryRange[];
  readonly target: FileHandle;
  /**
   * What the target reads as before: zeros, so that pages of zeros need not be written; the file that the memory was mapped from,
   * which these pages differ from; or an earlier copy of the memory, of which only what changed is written.
   */
  readonly over: "nothing" | "base" | "copy";
}

const copyBytes = 1024 * 1024;
/** Written as a whole where one page of it changed. */
const stripeBytes = 64 * 1024;
const zeroes = Buffer.alloc(copyBytes);
/**
 * Dirty memory is a few large runs and thousands of single pages. A page takes microseconds to copy, and ten times as
 * long to hand to a thread and back: small runs are copied at once, in slices that leave the event loop its turn.
 */
const smallBytes = 64 * 1024;
const sliceMs = 2;
/** Large pieces that are on their way at once. */
const lanes = 3;

/** Writes the content of the runs to the same offsets of the target: one state of the process only while it is stopped. */
export async function copyPages(options: CopyPages): Promise<void> {
  await using memory = await openPages(options.pid, "mem");
  await copySmallRuns(memory, options);
  await copyLargeRuns(memory, options);
}

async function copySmallRuns(memory: FileHandle, { runs, target, over }: CopyPages): Promise<void> {
  const [room, roomBefore] = [Buffer.allocUnsafe(smallBytes), Buffer.allocUnsafe(smallBytes)];
  let sliceEnd = performance.now() + sliceMs;
  for (const run of runs.filter((each) => each.length <= smallBytes)) {
    const content = room.subarray(0, run.length);
    if (readSync(memory.fd, content, 0, run.length, run.address) !== run.length) throw ended();
    const before = roomBefore.subarray(0, run.length);
    if (over === "copy") readSync(target.fd, before, 0, run.length, run.offset);
    if (mustWrite(content, over, before)) writeSync(target.fd, content, 0, run.length, run.offset);
    if (performance.now() < sliceEnd) continue;
    await setImmediate();
    sliceEnd = performance.now() + sliceMs;
  }
}

async function copyLargeRuns(memory: FileHandle, options: CopyPages): Promise<void> {
  const waiting = pieces(options.runs.filter((run) => run.length > smallBytes));
  const copied = await Promise.allSettled(
    Array.from({ length: lanes }, () => copyPieces(memory, waiting, options)),
  );
  for (const each of copied) if (each.status === "rejected") throw each.reason;
}

async function copyPieces(
  memory: FileHandle,
  waiting: Iterable<MemoryRange>,
  { target, over }: CopyPages,
): Promise<void> {
  const [room, roomBefore] = [Buffer.allocUnsafe(copyBytes), Buffer.allocUnsafe(copyBytes)];
  for (const { address, offset, length } of waiting) {
    const [content, before] = [room.subarray(0, length), roomBefore.subarray(0, length)];
    await Promise.all([
      readFully(memory, content, address),
      over === "copy" ? readFully(target, before, offset) : undefined,
    ]);
    if (!mustWrite(content, over, before)) continue;
    const step = over === "copy" ? stripeBytes : length;
    for (let at = 0; at < length; at += step) {
      const stripe = content.subarray(at, at + step);
      if (mustWrite(stripe, over, before.subarray(at, at + step)))
        await target.write(stripe, 0, stripe.length, offset + at);
    }
  }
}

// oxlint-disable-next-line max-params -- what is there now, and what was
function mustWrite(content: Buffer, over: CopyPages["over"], before: Buffer): boolean {
  if (over === "copy") return !content.equals(before);
  return over === "base" || !content.equals(zeroes.subarray(0, content.length));
}

function* pieces(runs: readonly MemoryRange[]): Generator<MemoryRange> {
  for (const run of runs) {
    for (let done = 0; done < run.length; done += copyBytes) {
      const length = Math.min(copyBytes, run.length - done);
      yield { address: run.address + done, offset: run.offset + done, length };
    }
  }
}

/** Writes what the file that the memory was mapped from has at these places: pages that the guest gave back. */
export async function copyBack(
  runs: readonly MemoryRange[],
  { base, target }: { readonly base: FileHandle; readonly target: FileHandle },
): Promise<void> {
  const room = Buffer.allocUnsafe(copyBytes);
  for (const { offset, length } of pieces(runs)) {
    const content = room.subarray(0, length);
    await readFully(base, content, offset);
    await target.write(content, 0, length, offset);
  }
}
