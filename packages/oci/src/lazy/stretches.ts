/** Joins chunks that lie near each other in one pack, so that one request brings them. Pure. */
import type { IndexedChunk } from "../packed/index-codec.ts";

export interface Stretch {
  readonly offset: number;
  readonly length: number;
  readonly chunks: readonly IndexedChunk[];
}

/** Much less than a request costs: lazy loading counts bytes. */
const gapBytes = 16 * 1024;
const stretchBytes = 1024 * 1024;

/** The chunks must be of one pack, in the order of their offsets. */
export function joinStretches(sorted: readonly IndexedChunk[]): Stretch[] {
  const stretches: { offset: number; length: number; chunks: IndexedChunk[] }[] = [];
  for (const chunk of sorted) {
    const last = stretches.at(-1);
    const gap = last ? chunk.offset - (last.offset + last.length) : 0;
    const length = last ? chunk.offset + chunk.length - last.offset : 0;
    if (last && gap <= gapBytes && length <= stretchBytes) {
      last.length = length;
      last.chunks.push(chunk);
    } else stretches.push({ offset: chunk.offset, length: chunk.length, chunks: [chunk] });
  }
  return stretches;
}
