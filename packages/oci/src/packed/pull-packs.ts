/**
 * Builds the files of a packed snapshot: what this node has comes from here, the rest from the registry. No byte is
 * written that was not checked against the digest of its chunk.
 */
import { Fault, silentLogger, type Abortable, type Logger } from "@cocoon/core";
import type { ChunkStore } from "../chunks/chunk-store.ts";
import type { ChunkLocator, DecodeItem, FilePlace, RawCandidate } from "../chunks/worker-protocol.ts";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import type { Repository } from "../registry/repository.ts";
import { Meter, type OnProgress } from "../snapshot/progress.ts";
import { forEachParallel, mapOrdered } from "../work/parallel.ts";
import { planFetch, type PackFetch } from "./fetch-plan.ts";
import type { IndexedChunk, SnapshotIndex } from "./index-codec.ts";

/** A file that is being built, and a file that may hold much of the same content at the same places. */
export interface BuiltFile {
  readonly fd: number;
  readonly similar?: { readonly fd: number; readonly size: number };
}

export interface PullPacksOptions extends Abortable {
  readonly repository: Repository;
  readonly index: SnapshotIndex;
  /** One per file of the index, of full size and without content. */
  readonly files: readonly BuiltFile[];
  readonly store: ChunkStore;
  readonly pool: WorkerPool;
  readonly transfers: number;
  readonly log?: Logger;
  readonly onProgress?: OnProgress;
}

/** Bytes of the machine before compression, unless said otherwise. */
export interface PullCounts {
  readonly totalBytes: number;
  readonly zeroBytes: number;
  /** Found on this node. */
  readonly localBytes: number;
  readonly remoteBytes: number;
  /** Over the wire. */
  readonly fetchedBytes: number;
}

interface Needed {
  readonly number: number;
  readonly chunk: IndexedChunk;
  readonly targets: FilePlace[];
  readonly guesses: RawCandidate[];
}

const chunksPerTask = 16;

export async function pullPacks(options: PullPacksOptions): Promise<PullCounts> {
  const { index, store, log = silentLogger } = options;
  const packs = index.packs.map((pack) => pack.digest);
  const held = store.hold(packs);
  try {
    const needed = neededChunks(options);
    const usedBytes = [...needed.values()].reduce((sum, each) => sum + usedBy(each), 0);
    const writing = new Meter("writing", usedBytes, options.onProgress);
    const job: Job = { ...options, log, writing, fetching: new Meter("fetching", 0, options.onProgress) };
    const missing = await writeFound([...needed.values()], await localCandidates(needed, job), job);
    store.touch(packs);
    await fetchMissing(missing, job);
    const totalBytes = index.files.reduce((sum, each) => sum + each.size, 0);
    const remoteBytes = missing.reduce((sum, each) => sum + usedBy(each), 0);
    return {
      totalBytes,
      zeroBytes: totalBytes - usedBytes,
      localBytes: usedBytes - remoteBytes,
      remoteBytes,
      fetchedBytes: job.fetching.doneBytes,
    };
  } finally {
    held[Symbol.dispose]();
    await store.makeRoom();
  }
}

interface Job extends PullPacksOptions {
  readonly log: Logger;
  readonly writing: Meter;
  readonly fetching: Meter;
}

function usedBy(needed: Needed): number {
  return needed.chunk.rawLength * needed.targets.length;
}

/** Each chunk once, with every place it goes to and every place where it may be lying about. */
function neededChunks({ index, files }: PullPacksOptions): Map<number, Needed> {
  const needed = new Map<number, Needed>();
  for (const [fileNumber, file] of index.files.entries()) {
    const built = files[fileNumber];
    if (!built) throw new Fault("internal", `no file was made for ${file.name}`);
    for (const [position, reference] of file.map.entries()) {
      const chunk = index.chunks[reference - 1];
      if (reference === 0 || !chunk) continue;
      const entry = needed.get(reference - 1) ?? { number: reference - 1, chunk, targets: [], guesses: [] };
      const offset = position * index.chunkBytes;
      entry.targets.push({ fd: built.fd, offset });
      if (built.similar && entry.guesses.length === 0 && offset + chunk.rawLength <= built.similar.size)
        entry.guesses.push({ fd: built.similar.fd, offset, length: chunk.rawLength });
      needed.set(reference - 1, entry);
    }
  }
  return needed;
}

type Candidates = ReadonlyMap<number, readonly (ChunkLocator | RawCandidate)[]>;

async function localCandidates(needed: ReadonlyMap<number, Needed>, { store }: Job): Promise<Candidates> {
  const stored = await store.find([...needed.values()].map((each) => each.chunk.id));
  return new Map(
    [...needed.values()].map((each) => {
      const locator = stored.get(each.chunk.id);
      return [each.number, locator ? [...each.guesses, locator] : each.guesses];
    }),
  );
}

/** Writes what can be found; returns the rest. Stored chunks that turn out damaged are forgotten. */
async function writeFound(needed: readonly Needed[], candidates: Candidates, job: Job): Promise<Needed[]> {
  const { pool, signal, store, log, writing } = job;
  const missing: Needed[] = [];
  const hopeful: Needed[] = [];
  for (const each of needed) (candidates.get(each.number)?.length ? hopeful : missing).push(each);
  const work = async (batch: readonly Needed[]): Promise<void> => {
    const items = batch.map((each): DecodeItem => ({
      id: each.chunk.id,
      rawLength: each.chunk.rawLength,
      candidates: candidates.get(each.number) ?? [],
      targets: each.targets,
    }));
    const { found, troubles } = await pool.run({ kind: "decode", items }, { signal });
    for (const trouble of troubles) log.warn({ error: trouble }, "damaged chunk in the local store");
    for (const [index, each] of batch.entries()) {
      if ((found[index] ?? -1) >= 0) writing.add(usedBy(each));
      else missing.push(each);
    }
    const failed = batch.filter((_each, index) => found[index] === -1);
    await store.forget(failed.flatMap((each) => locatedIds(candidates.get(each.number))));
  };
  for await (const _done of mapOrdered(batches(hopeful), pool.width, work));
  return missing;
}

/** The stored chunks among the candidates, with what they stand on: either may be the damaged one. */
function locatedIds(candidates: readonly (ChunkLocator | RawCandidate)[] = []): string[] {
  return candidates.flatMap((each) =>
    "path" in each ? [each.id, ...(each.base ? [each.base.id] : [])] : [],
  );
}

/**
 * Gets everything that is missing. A second round is for deltas whose base was here but damaged: it is forgotten
 * by then and fetched. What is still wrong after that is wrong in the registry.
 */
async function fetchMissing(missing: readonly Needed[], job: Job): Promise<void> {
  const stillMissing = await fetchRound(missing, job);
  const [bad] = await fetchRound(stillMissing, job);
  if (bad)
    throw new Fault(
      "invalid",
      `chunk ${bad.chunk.id} in pack ${job.index.packs[bad.chunk.pack]?.digest} does not match its digest`,
    );
}

/** Fetches packs and writes their chunks; deltas last, when everything they stand on is here. Returns the rest. */
async function fetchRound(missing: readonly Needed[], job: Job): Promise<Needed[]> {
  if (missing.length === 0) return [];
  const plan = planFetch(job.index.packs, await wantedFrom(missing, job));
  job.fetching.expect(plan.reduce((sum, each) => sum + bytesOf(each), 0));
  const byChunk = new Map(missing.map((each) => [each.chunk, each]));
  const deltas: Needed[] = [];
  const bad: Needed[] = [];
  await forEachParallel(plan, job.transfers, async (fetch) => {
    await fetchPack(fetch, job);
    const here = fetch.chunks.flatMap((chunk) => byChunk.get(chunk) ?? []);
    deltas.push(...here.filter((each) => each.chunk.encoding === "delta"));
    const whole = here.filter((each) => each.chunk.encoding !== "delta");
    bad.push(...(await writeFetched(whole, job)));
  });
  return [...bad, ...(await writeFetched(deltas, job))];
}

/** The missing chunks and what they stand on, as far as that is not here. */
async function wantedFrom(missing: readonly Needed[], { index, store }: Job): Promise<Set<IndexedChunk>> {
  const wanted = new Set(missing.map((each) => each.chunk));
  const bases = missing.flatMap((each) => {
    const base = each.chunk.base === undefined ? undefined : index.chunks[each.chunk.base];
    return base ? [base] : [];
  });
  const here = await store.find(bases.map((each) => each.id));
  for (const base of bases) if (!here.has(base.id)) wanted.add(base);
  return wanted;
}

function bytesOf(fetch: PackFetch): number {
  return fetch.stretches?.reduce((sum, each) => sum + each.length, 0) ?? fetch.pack.size;
}

async function fetchPack(fetch: PackFetch, job: Job): Promise<void> {
  const { repository, index, store, signal, fetching } = job;
  const { digest, size } = fetch.pack;
  const inPack = fetch.stretches
    ? fetch.chunks
    : index.chunks.filter((each) => each.pack === fetch.chunks[0]?.pack);
  await store.addPack({
    digest,
    partial: fetch.stretches !== undefined,
    chunks: inPack.map(({ base, pack: _pack, ...chunk }) => {
      const baseId = base === undefined ? undefined : index.chunks[base]?.id;
      return baseId === undefined ? chunk : { ...chunk, baseId };
    }),
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
}

/** Writes what was just fetched; returns what does not match. */
async function writeFetched(needed: readonly Needed[], job: Job): Promise<Needed[]> {
  const stored = await job.store.find(needed.map((each) => each.chunk.id));
  const candidates = new Map(
    needed.map((each) => {
      const locator = stored.get(each.chunk.id);
      return [each.number, locator ? [locator] : []];
    }),
  );
  return writeFound(needed, candidates, job);
}

function* batches(needed: readonly Needed[]): Generator<readonly Needed[]> {
  for (let at = 0; at < needed.length; at += chunksPerTask) yield needed.slice(at, at + chunksPerTask);
}
