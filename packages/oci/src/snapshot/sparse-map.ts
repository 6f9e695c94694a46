/**
 * Sparse maps: where a file has data. On the wire they are the JSON text `[{"o":offset,"l":length},…]` that tar
 * entries and snapshot configs carry; the bytes that go with it are the data segments back to back.
 */
import { Fault } from "@cocoon/core";
import * as z from "zod";

export interface Extent {
  readonly offset: number;
  readonly length: number;
}

const wire = z.array(z.object({ o: z.int().min(0), l: z.int().min(0) })).max(2 ** 22);
const longestMapBytes = 64 * 1024 * 1024;

/** Reads a map and checks it against the file's logical size. Segments without bytes are left out. */
export function readSparseMap(text: string, size: number): Extent[] {
  if (text.length > longestMapBytes) throw new Fault("tooLarge", "the sparse map is too long");
  let parsed: z.output<typeof wire>;
  try {
    parsed = wire.parse(JSON.parse(text));
  } catch (error) {
    throw new Fault("invalid", "the sparse map is malformed", { cause: error });
  }
  const extents = parsed.filter((each) => each.l > 0).map((each) => ({ offset: each.o, length: each.l }));
  assertExtents(extents, size, "sparse map");
  return extents;
}

export function writeSparseMap(extents: readonly Extent[]): string {
  return JSON.stringify(extents.map(({ offset, length }) => ({ o: offset, l: length })));
}

/** In order, without overlap, inside the file. */
export function assertExtents(extents: readonly Extent[], size: number, what: string): void {
  let end = 0;
  for (const { offset, length } of extents) {
    const whole = Number.isSafeInteger(offset) && Number.isSafeInteger(length) && length > 0;
    if (!whole || offset < end || offset + length > size)
      throw new Fault(
        "invalid",
        `${what}: the segment of ${length} bytes at ${offset} overlaps or lies outside`,
      );
    end = offset + length;
  }
}

export function dataBytes(extents: readonly Extent[]): number {
  return extents.reduce((sum, each) => sum + each.length, 0);
}

/** Joins segments that touch, so that equal layouts have equal maps. */
export function joinExtents(extents: Iterable<Extent>): Extent[] {
  const joined: { offset: number; length: number }[] = [];
  for (const { offset, length } of extents) {
    const last = joined.at(-1);
    if (last && last.offset + last.length === offset) last.length += length;
    else if (length > 0) joined.push({ offset, length });
  }
  return joined;
}

/** The pieces of `[start, end)` that hold data. */
export function* within(extents: readonly Extent[], start: number, end: number): Generator<Extent> {
  for (const extent of extents) {
    const from = Math.max(extent.offset, start);
    const to = Math.min(extent.offset + extent.length, end);
    if (from < to) yield { offset: from, length: to - from };
  }
}
