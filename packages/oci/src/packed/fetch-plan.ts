/** Decides how to get chunks out of packs: the whole pack, or only the stretches that are needed. Pure. */
import type { IndexedChunk, Pack } from "./index-codec.ts";

interface Stretch {
  readonly offset: number;
  readonly length: number;
}

export interface PackFetch {
  readonly pack: Pack;
  /** The chunks to be had from it. */
  readonly chunks: readonly IndexedChunk[];
  /** Undefined: take the whole pack. */
  readonly stretches?: readonly Stretch[];
}

/** A request costs about as much as this many bytes, so a smaller gap is read and thrown away. */
const gapBytes = 256 * 1024;
/** From this part on the whole pack is taken: its digest can then be checked at once, and it can be kept. */
const wholePart = 0.6;
const mostStretches = 8;

export function planFetch(packs: readonly Pack[], needed: Iterable<IndexedChunk>): PackFetch[] {
  const byPack = Map.groupBy(needed, (chunk) => chunk.pack);
  return [...byPack].flatMap(([number, chunks]) => {
    const pack = packs[number];
    if (!pack) return [];
    const sorted = chunks.toSorted((a, b) => a.offset - b.offset);
    const stretches = joinStretches(sorted);
    const bytes = stretches.reduce((sum, each) => sum + each.length, 0);
    const whole = bytes >= pack.size * wholePart || stretches.length > mostStretches;
    return [whole ? { pack, chunks: sorted } : { pack, chunks: sorted, stretches }];
  });
}

function joinStretches(sorted: readonly IndexedChunk[]): Stretch[] {
  const stretches: { offset: number; length: number }[] = [];
  for (const { offset, length } of sorted) {
    const last = stretches.at(-1);
    if (last && offset - (last.offset + last.length) <= gapBytes)
      last.length = Math.max(last.length, offset + length - last.offset);
    else stretches.push({ offset, length });
  }
  return stretches;
}
