/** The first pass over a snapshot's files: names every chunk by its digest, on all cores. */
import type { Abortable } from "@cocoon/core";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import type { OpenFile } from "../snapshot/source.ts";
import { mapOrdered } from "../work/parallel.ts";

export interface NamedFile {
  readonly file: OpenFile;
  /** One per chunk of the file; undefined where there is nothing but zeros. */
  readonly ids: readonly (string | undefined)[];
}

export interface NameOptions extends Abortable {
  readonly pool: WorkerPool;
  readonly chunkBytes: number;
  readonly onRead?: (bytes: number) => void;
}

/** What one task looks at: large enough to be worth the message, small enough to keep the threads evenly busy. */
const regionBytes = 1024 * 1024;

interface Region {
  readonly number: number;
  readonly file: OpenFile;
  readonly offset: number;
  readonly length: number;
}

export async function nameChunks(files: readonly OpenFile[], options: NameOptions): Promise<NamedFile[]> {
  const { pool, chunkBytes, signal } = options;
  const named = files.map((file) => ({
    file,
    ids: Array.from({ length: Math.ceil(file.size / chunkBytes) }, (): string | undefined => undefined),
  }));
  const work = async (region: Region): Promise<{ region: Region; digests: Uint8Array }> => {
    const { offset, length } = region;
    const { digests } = await pool.run(
      { kind: "hash", fd: region.file.fd, offset, length, chunkBytes },
      { signal },
    );
    return { region, digests };
  };
  for await (const { region, digests } of mapOrdered(splitRegions(files), pool.width, work)) {
    const ids = named[region.number]?.ids ?? [];
    const first = region.offset / chunkBytes;
    for (const [index, id] of splitIds(digests).entries()) ids[first + index] = id;
    options.onRead?.(region.length);
  }
  return named;
}

function splitIds(digests: Uint8Array): (string | undefined)[] {
  const buffer = Buffer.from(digests.buffer, digests.byteOffset, digests.length);
  const none = Buffer.alloc(32);
  return Array.from({ length: digests.length / 32 }, (_, index) => {
    const digest = buffer.subarray(index * 32, index * 32 + 32);
    return digest.equals(none) ? undefined : digest.toString("hex");
  });
}

/** Regions that hold data; a hole of a known map is not even read. */
function* splitRegions(files: readonly OpenFile[]): Generator<Region> {
  for (const [number, file] of files.entries()) {
    let next = 0;
    for (const extent of file.data) {
      const end = extent.offset + extent.length;
      let offset = Math.max(next, Math.floor(extent.offset / regionBytes) * regionBytes);
      for (; offset < end; offset += regionBytes)
        yield { number, file, offset, length: Math.min(regionBytes, file.size - offset) };
      next = offset;
    }
  }
}
