/** Where a file has data. Holes are found by looking, in 4 KiB blocks: what reads as zero is one, however it is stored. */
import type { FileHandle } from "node:fs/promises";
import type { Abortable } from "@cocoon/core";

export interface Extent {
  readonly offset: number;
  readonly length: number;
}

export const blockBytes = 4096;
const readBytes = 4 * 1024 * 1024;
/** A hole shorter than this costs more in the map than it saves. */
const smallestHoleBytes = 64 * 1024;
/** Readers in Go refuse records above 1 MiB. */
const longestMapBytes = 900 * 1024;
const zeroes = Buffer.alloc(readBytes);

/** The extents that are not zero, in order; small holes are swallowed. */
export async function findData(file: FileHandle, { signal }: Abortable): Promise<Extent[]> {
  const { size } = await file.stat();
  const found: Extent[] = [];
  const buffer = Buffer.allocUnsafe(Math.min(readBytes, Math.max(size, 1)));
  for (let offset = 0; offset < size; offset += readBytes) {
    signal.throwIfAborted();
    const { bytesRead } = await file.read(buffer, 0, Math.min(readBytes, size - offset), offset);
    appendData(buffer.subarray(0, bytesRead), offset, found);
    if (bytesRead === 0) break; // it became shorter under our hands
  }
  return shortened(found);
}

function appendData(content: Buffer, offset: number, found: Extent[]): void {
  if (content.equals(zeroes.subarray(0, content.length))) return;
  for (let at = 0; at < content.length; at += blockBytes) {
    const length = Math.min(blockBytes, content.length - at);
    if (content.subarray(at, at + length).equals(zeroes.subarray(0, length))) continue;
    appendExtent(found, { offset: offset + at, length });
  }
}

function appendExtent(found: Extent[], extent: Extent, hole = 0): void {
  const last = found.at(-1);
  const end = last ? last.offset + last.length : -1;
  if (last && extent.offset - end <= hole)
    found[found.length - 1] = { offset: last.offset, length: extent.offset + extent.length - last.offset };
  else found.push(extent);
}

/** Swallows small holes, and larger ones for as long as the map would be too long. */
function shortened(found: readonly Extent[]): Extent[] {
  for (let hole = smallestHoleBytes; ; hole *= 2) {
    const joined: Extent[] = [];
    for (const extent of found) appendExtent(joined, extent, hole - 1);
    if (joined.length < 2 || writeMap(joined).length <= longestMapBytes) return joined;
  }
}

export function writeMap(extents: readonly Extent[]): string {
  return JSON.stringify(extents.map(({ offset, length }) => ({ o: offset, l: length })));
}

export function totalLength(extents: readonly Extent[]): number {
  return extents.reduce((sum, extent) => sum + extent.length, 0);
}

/** The pieces of a block-aligned buffer that are not zero, for writing only those. */
export function nonZeroPieces(content: Buffer): Extent[] {
  const pieces: Extent[] = [];
  appendData(content, 0, pieces);
  return pieces;
}
