/**
 * Builds the files of a packed snapshot: what this node has comes from here, the rest from the registry. No byte is
 * written that was not checked against the digest of its chunk.
 */
import { Fault, type Abortable } from "@cocoon/core";
import type { ChunkStore } from "../chunks/chunk-store.ts";
import type { FilePlace, RawCandidate } from "../chunks/worker-protocol.ts";
import type { Repository } from "../registry/repository.ts";
import { Meter, type OnProgress } from "../snapshot/progress.ts";
import type { Tools } from "../snapshot/tools.ts";
import { fetchChunks } from "./fetch-chunks.ts";
import type { IndexedChunk, SnapshotIndex } from "./index-codec.ts";
import { countBytes, placeLocalChunks, type Needed } from "./place-chunks.ts";

/** A file that is being built, and a file that may hold much of the same content at the same places. */
export interface BuiltFile {
  readonly fd: number;
  readonly similar?: { readonly fd: number; readonly size: number };
}

interface PullPacksOptions extends Tools, Abortable {
  readonly repository: Repository;
  readonly index: SnapshotIndex;
  /** One per file of the index, of full size and without content. */
  readonly files: readonly BuiltFile[];
  readonly store: ChunkStore;
  readonly onProgress?: OnProgress;
}

/** Bytes of the machine before compression, unless said otherwise. */
interface PullCounts {
  readonly totalBytes: number;
  /** Found on this node. */
  readonly localBytes: number;
  /** Over the wire. */
  readonly fetchedBytes: number;
}

export async function pullPacks(options: PullPacksOptions): Promise<PullCounts> {
  const { index, store } = options;
  const packs = index.packs.map((pack) => pack.digest);
  const held = store.hold(packs);
  try {
    const needed = neededChunks(options);
    const usedBytes = sumBytes(needed);
    const writing = new Meter("writing", usedBytes, options.onProgress);
    const fetching = new Meter("fetching", 0, options.onProgress);
    const { missing } = await placeLocalChunks(needed, { ...options, writing });
    store.touch(packs);
    await fetchChunks(missing, { ...options, writing, fetching });
    const totalBytes = index.files.reduce((sum, each) => sum + each.size, 0);
    const localBytes = usedBytes - sumBytes(missing);
    return { totalBytes, localBytes, fetchedBytes: fetching.doneBytes };
  } finally {
    held[Symbol.dispose]();
    await store.makeRoom();
  }
}

function sumBytes(needed: readonly Needed[]): number {
  return needed.reduce((sum, each) => sum + countBytes(each), 0);
}

interface Place {
  readonly chunk: IndexedChunk;
  readonly targets: FilePlace[];
  readonly guesses: RawCandidate[];
}

/** Each chunk once, with every place it goes to and one where it may be lying about. */
function neededChunks({ index, files }: PullPacksOptions): Needed[] {
  const places = new Map<number, Place>();
  for (const [fileNumber, file] of index.files.entries()) {
    const built = files[fileNumber];
    if (!built) throw new Fault("internal", `no file was made for ${file.name}`);
    for (const [position, reference] of file.map.entries()) {
      const chunk = index.chunks[reference - 1];
      if (reference === 0 || !chunk) continue;
      const place = places.get(reference - 1) ?? { chunk, targets: [], guesses: [] };
      places.set(reference - 1, place);
      const offset = position * index.chunkBytes;
      place.targets.push({ fd: built.fd, offset });
      if (built.similar && place.guesses.length === 0 && offset + chunk.rawLength <= built.similar.size)
        place.guesses.push({ fd: built.similar.fd, offset, id: chunk.id, rawLength: chunk.rawLength });
    }
  }
  return [...places].map(([number, place]) => ({ number, ...place }));
}
