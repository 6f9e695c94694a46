/** Gets chunks from the registry into the store, and from there into the files. */
import { Fault } from "@cocoon/core";
import type { ChunkLocator } from "../chunks/worker-protocol.ts";
import type { Repository } from "../registry/repository.ts";
import type { Meter } from "../snapshot/progress.ts";
import { forEachParallel } from "../work/parallel.ts";
import { planFetch, type PackFetch } from "./fetch-plan.ts";
import type { IndexedChunk, SnapshotIndex } from "./index-codec.ts";
import {
  placeChunks,
  placeLocalChunks,
  type Candidate,
  type Needed,
  type PlaceOptions,
} from "./place-chunks.ts";

export interface FetchOptions extends PlaceOptions {
  readonly repository: Repository;
  readonly index: SnapshotIndex;
  readonly transfers: number;
  readonly fetching: Meter;
}

/**
 * Gets everything that is missing. A pack that was on this node already is used as it is; should it be damaged, it is
 * forgotten and the second round fetches it. What is still wrong then is wrong in the registry.
 */
export async function fetchChunks(missing: readonly Needed[], options: FetchOptions): Promise<void> {
  const failed = await fetchRound(missing, options);
  if (failed.length === 0) return;
  const { index, store } = options;
  const suspects = failed.flatMap(({ chunk }) => [chunk, ...findBaseChunks(index, chunk)]);
  await store.forgetPacks(new Set(suspects.map((each) => index.packs[each.pack]?.digest ?? "")));
  const [bad] = await fetchRound(failed, options);
  if (!bad) return;
  throw new Fault(
    "invalid",
    `chunk ${bad.chunk.id} in pack ${index.packs[bad.chunk.pack]?.digest} does not match its digest`,
  );
}

/** Whole chunks are placed as soon as their pack is here, deltas when everything is. Returns what did not match. */
async function fetchRound(missing: readonly Needed[], options: FetchOptions): Promise<Needed[]> {
  const bases = await placeLocalChunks(collectBases(missing, options.index), options);
  const wanted = new Map([...missing, ...bases.missing].map((each) => [each.chunk, each]));
  const plan = planFetch(options.index.packs, wanted.keys());
  options.fetching.expect(plan.reduce((sum, each) => sum + bytesOfFetch(each), 0));
  const fetched = new Map<IndexedChunk, ChunkLocator>();
  const byChunk = new Map(missing.map((each) => [each.chunk, each]));
  const findCandidates = (each: Needed): readonly Candidate[] => {
    const locator = fetched.get(each.chunk);
    return locator ? [locator] : [];
  };
  const failed: Needed[] = [];
  const deltas: Needed[] = [];
  await forEachParallel(plan, options.transfers, async (fetch) => {
    for (const [chunk, locator] of await fetchPack(fetch, options)) fetched.set(chunk, locator);
    const here = fetch.chunks.flatMap((chunk) => byChunk.get(chunk) ?? []);
    deltas.push(...here.filter((each) => each.chunk.base !== undefined));
    const whole = here.filter((each) => each.chunk.base === undefined);
    failed.push(...(await placeChunks(whole, findCandidates, options)).missing);
  });
  for (const { chunk } of deltas) {
    const [delta, base] = [fetched.get(chunk), options.index.chunks[chunk.base ?? -1]];
    const basis = base && (bases.found.get(chunk.base ?? -1) ?? fetched.get(base));
    if (delta && basis) fetched.set(chunk, { ...delta, base: basis });
  }
  return [...failed, ...(await placeChunks(deltas, findCandidates, options)).missing];
}

function findBaseChunks(index: SnapshotIndex, chunk: IndexedChunk): IndexedChunk[] {
  const base = chunk.base === undefined ? undefined : index.chunks[chunk.base];
  return base ? [base] : [];
}

/** What the missing deltas stand on; a file that holds the old content of their place may hold it. */
function collectBases(missing: readonly Needed[], index: SnapshotIndex): Needed[] {
  const bases = new Map<number, Needed>();
  for (const { chunk, guesses } of missing) {
    const [base] = findBaseChunks(index, chunk);
    if (!base || chunk.base === undefined || bases.has(chunk.base)) continue;
    const likely = guesses.map((each) => ({ ...each, id: base.id, rawLength: base.rawLength }));
    bases.set(chunk.base, { number: chunk.base, chunk: base, targets: [], guesses: likely });
  }
  return [...bases.values()];
}

function bytesOfFetch(fetch: PackFetch): number {
  return fetch.stretches?.reduce((sum, each) => sum + each.length, 0) ?? fetch.pack.size;
}

/** Brings a pack, or the needed stretches of it, into the store; says where its chunks now lie. */
async function fetchPack(fetch: PackFetch, options: FetchOptions): Promise<[IndexedChunk, ChunkLocator][]> {
  const { repository, index, store, signal, fetching } = options;
  const { digest, size } = fetch.pack;
  const partial = fetch.stretches !== undefined;
  const number = fetch.chunks[0]?.pack;
  const inPack = partial ? fetch.chunks : index.chunks.filter((each) => each.pack === number);
  const path = await store.addPack({
    digest,
    partial,
    chunks: inPack.map((chunk) => packedChunk(chunk, index)),
    write: async (file) => {
      for (const part of fetch.stretches ?? [{ offset: 0, length: size }]) {
        let at = part.offset;
        for await (const piece of repository.openBlob({ digest, size, ...part }, { signal })) {
          await file.write(piece, at);
          at += piece.length;
          fetching.add(piece.length);
        }
      }
    },
  });
  return fetch.chunks.map((chunk) => [chunk, { ...placeIn(chunk), path }]);
}

function placeIn({ id, offset, length, rawLength, encoding }: IndexedChunk): Omit<ChunkLocator, "path"> {
  return { id, offset, length, rawLength, encoding };
}

function packedChunk(
  chunk: IndexedChunk,
  index: SnapshotIndex,
): ReturnType<typeof placeIn> & { baseId?: string } {
  const [base] = findBaseChunks(index, chunk);
  return base ? { ...placeIn(chunk), baseId: base.id } : placeIn(chunk);
}
