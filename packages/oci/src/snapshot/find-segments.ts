/** Finds where a file has data when the source does not list it, and keeps the map small enough for every reader. */
import type { Abortable } from "@cocoon/core";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import { mapOrdered } from "../work/parallel.ts";
import type { OpenFile } from "./source.ts";
import { joinExtents, writeSparseMap, type Extent } from "./sparse-map.ts";

const regionBytes = 4 * 1024 * 1024;
/** A hole shorter than this costs more in the map than it saves in the body. */
const smallestHoleBytes = 64 * 1024;
/** Go's tar library refuses PAX records above 1 MiB. */
const longestMapBytes = 900 * 1024;

export async function findSegments(
  file: OpenFile,
  { pool, signal }: Abortable & { readonly pool: WorkerPool },
): Promise<Extent[]> {
  const scan = (region: Extent): Promise<{ readonly ranges: readonly Extent[] }> =>
    pool.run({ kind: "scan", fd: file.fd, ...region }, { signal });
  const found: Extent[] = [];
  for await (const { ranges } of mapOrdered(splitRegions(file.data), pool.width, scan)) found.push(...ranges);
  return shortened(found, file.size);
}

function* splitRegions(extents: readonly Extent[]): Generator<Extent> {
  for (const { offset, length } of extents)
    for (let at = 0; at < length; at += regionBytes)
      yield { offset: offset + at, length: Math.min(regionBytes, length - at) };
}

/** Swallows small holes, and larger ones for as long as the map is too long. */
export function shortened(found: readonly Extent[], size: number): Extent[] {
  for (let hole = smallestHoleBytes; ; hole *= 2) {
    const extents = withoutHoles(found, size, hole);
    if (extents.length < 2 || writeSparseMap(extents).length <= longestMapBytes) return extents;
  }
}

function withoutHoles(found: readonly Extent[], size: number, smallest: number): Extent[] {
  const kept: { offset: number; length: number }[] = [];
  for (const { offset, length } of joinExtents(found)) {
    const last = kept.at(-1);
    const end = last ? last.offset + last.length : 0;
    if (offset - end >= smallest) kept.push({ offset, length });
    else if (last) last.length = offset + length - last.offset;
    else kept.push({ offset: 0, length: offset + length });
  }
  const last = kept.at(-1);
  if (last && size - (last.offset + last.length) < smallest) last.length = size - last.offset;
  return kept;
}
