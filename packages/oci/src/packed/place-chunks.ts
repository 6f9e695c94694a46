/** Puts chunks into the files that are being built, from wherever they can be had on this node. */
import type { Abortable, Logger } from "@cocoon/core";
import type { ChunkStore } from "../chunks/chunk-store.ts";
import type { ChunkLocator, FilePlace, RawCandidate } from "../chunks/worker-protocol.ts";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import type { Meter } from "../snapshot/progress.ts";
import { mapOrdered } from "../work/parallel.ts";
import type { IndexedChunk } from "./index-codec.ts";

export type Candidate = ChunkLocator | RawCandidate;

/** A chunk, where it goes, and where the same content may be lying about. */
export interface Needed {
  readonly number: number;
  readonly chunk: IndexedChunk;
  readonly targets: readonly FilePlace[];
  readonly guesses: readonly RawCandidate[];
}

export interface PlaceOptions extends Abortable {
  readonly pool: WorkerPool;
  readonly store: ChunkStore;
  readonly log: Logger;
  readonly writing: Meter;
}

export interface Placed {
  /** By chunk number: what held it. */
  readonly found: ReadonlyMap<number, Candidate>;
  readonly missing: readonly Needed[];
}

const chunksPerTask = 16;

export function countBytes(needed: Needed): number {
  return needed.chunk.rawLength * needed.targets.length;
}

/** Tries each chunk's candidates in their order; only content that matches its digest is written. */
export async function placeChunks(
  needed: readonly Needed[],
  findCandidates: (needed: Needed) => readonly Candidate[],
  options: PlaceOptions,
): Promise<Placed> {
  const { pool, signal, log, writing } = options;
  const found = new Map<number, Candidate>();
  const work = async (batch: readonly Needed[]): Promise<void> => {
    const items = batch.map((each) => ({ candidates: findCandidates(each), targets: each.targets }));
    const result = await pool.run({ kind: "decode", items }, { signal });
    for (const problem of result.problems) log.warn({ error: problem }, "damaged chunk on this node");
    for (const [index, each] of batch.entries()) {
      const winner = items[index]?.candidates[result.found[index] ?? -1];
      if (!winner) continue;
      found.set(each.number, winner);
      writing.add(countBytes(each));
    }
  };
  const hopeful = needed.filter((each) => findCandidates(each).length > 0);
  for await (const _done of mapOrdered(batches(hopeful), pool.width, work));
  return { found, missing: needed.filter((each) => !found.has(each.number)) };
}

/** From files that may be similar and from the store. Stored chunks that turn out damaged are forgotten. */
export async function placeLocalChunks(needed: readonly Needed[], options: PlaceOptions): Promise<Placed> {
  const stored = await options.store.find(needed.map((each) => each.chunk.id));
  const findCandidates = (each: Needed): readonly Candidate[] => {
    const locator = stored.get(each.chunk.id);
    return locator ? [...each.guesses, locator] : each.guesses;
  };
  const placed = await placeChunks(needed, findCandidates, options);
  const damaged = placed.missing.flatMap((each) => {
    const locator = stored.get(each.chunk.id);
    return locator ? [locator.id, ...(locator.base ? [locator.base.id] : [])] : [];
  });
  await options.store.forgetChunks(damaged);
  return placed;
}

function* batches(needed: readonly Needed[]): Generator<readonly Needed[]> {
  for (let at = 0; at < needed.length; at += chunksPerTask) yield needed.slice(at, at + chunksPerTask);
}
