/** Brings the content of a snapshot into a repository as packs, reusing what the registry has. */
import { stat } from "node:fs/promises";
import type { ChunkLocator } from "../chunks/worker-protocol.ts";
import { openFileContent, joinPieces } from "../registry/blob-content.ts";
import { Meter } from "../snapshot/progress.ts";
import type { OpenFile } from "../snapshot/source.ts";
import { forEachParallel } from "../work/parallel.ts";
import { TaskGroup } from "../work/task-group.ts";
import { buildIndex } from "./build-index.ts";
import { encodePacks, type EncodeRequest, type FilledPack } from "./encode-packs.ts";
import type { SnapshotIndex } from "./index-codec.ts";
import { nameChunks, type NamedFile } from "./name-chunks.ts";
import {
  planReuse,
  type BaseSnapshot,
  type FreshChunk,
  type KnownPack,
  type Location,
  type ReusePlan,
  type WantedChunk,
} from "./reuse-plan.ts";
import type { PushLayersOptions } from "../snapshot/push-layers.ts";

/** Small enough that an idle machine's changes touch few, large enough that naming them costs little. */
const packedChunkBytes = 64 * 1024;
/** A few hundred chunks per request, and little to hold in memory. */
const packBytes = 8 * 1024 * 1024;

interface PushPacksOptions extends PushLayersOptions {
  readonly bases: readonly BaseSnapshot[];
  readonly level: number;
}

interface PushedPacks {
  readonly index: SnapshotIndex;
  /** Bytes of the machine before compression; those sent, as they went over the wire. */
  readonly counts: Record<"totalBytes" | "reusedBytes" | "sentBytes", number>;
}

export async function pushPacks(options: PushPacksOptions): Promise<PushedPacks> {
  const { files, signal } = options;
  const totalBytes = files.reduce((sum, each) => sum + each.size, 0);
  const reading = new Meter("reading", totalBytes, options.onProgress);
  const onRead = (bytes: number): void => reading.add(bytes);
  const named = await nameChunks(files, { pool: options.pool, chunkBytes: packedChunkBytes, signal, onRead });
  const wanted = wantedChunks(named);
  const sending = new Meter("sending", 0, options.onProgress);
  const plan = await settlePlan(wanted, options, sending);
  const newBytes = plan.fresh.reduce((sum, each) => sum + each.rawLength, 0);
  sending.expect(newBytes / 2); // a guess until the compressor has spoken
  const filled = await sendFresh(plan.fresh, { ...options, named, sending });
  const locations = new Map(plan.reused);
  for (const location of filled.flatMap((each) => each.locations)) locations.set(location.id, location);
  const used = collectPacks(locations.values());
  const packs = [
    ...plan.packs.filter((each) => used.has(each.digest)), // some were only hoped to be of use
    ...filled,
  ];
  const index = buildIndex({
    chunkBytes: packedChunkBytes,
    packs: packs.map(({ digest, size }) => ({ digest, size })),
    locations,
    files: named.map(({ file, ids }) => ({ name: file.name, size: file.size, ids })),
  });
  const reusedBytes = bytesInUse(named) - newBytes;
  return { index, counts: { totalBytes, reusedBytes, sentBytes: sending.doneBytes } };
}

function collectPacks(locations: Iterable<Location>): Set<string> {
  const packs = new Set<string>();
  for (const { pack, base } of locations) {
    packs.add(pack);
    if (base) packs.add(base.pack);
  }
  return packs;
}

/** Each chunk once, at its first place. */
function wantedChunks(named: readonly NamedFile[]): WantedChunk[] {
  const wanted = new Map<string, WantedChunk>();
  for (const { file, ids } of named)
    for (const [position, id] of ids.entries())
      if (id !== undefined && !wanted.has(id))
        wanted.set(id, { id, rawLength: lengthAt(file, position), file: file.name, position });
  return [...wanted.values()];
}

function lengthAt(file: OpenFile, position: number): number {
  return Math.min(packedChunkBytes, file.size - position * packedChunkBytes);
}

function bytesInUse(named: readonly NamedFile[]): number {
  let bytes = 0;
  for (const { file, ids } of named)
    for (const [position, id] of ids.entries()) if (id !== undefined) bytes += lengthAt(file, position);
  return bytes;
}

/** A plan all of whose packs really are in the repository. Packs that turn out to be lost are planned without. */
async function settlePlan(
  wanted: readonly WantedChunk[],
  options: PushPacksOptions,
  sending: Meter,
): Promise<ReusePlan> {
  const lost = new Set<string>();
  const present = new Set<string>();
  for (;;) {
    const plan = planReuse(wanted, options.bases, { lost });
    const open = plan.packs.filter((pack) => !present.has(pack.digest));
    if (open.length === 0) return plan;
    await forEachParallel(open, options.transfers, async (pack) => {
      const there = await bringPack(pack, options, sending);
      (there ? present : lost).add(pack.digest);
    });
  }
}

/** By looking, by mounting it from a base's repository, or from our own copy. */
async function bringPack(pack: KnownPack, options: PushPacksOptions, sending: Meter): Promise<boolean> {
  const { repository, signal, store } = options;
  if (await repository.headBlob(pack.digest, { signal })) return true;
  for (const from of pack.repositories)
    if (from !== repository.name && (await repository.mountBlob({ digest: pack.digest, from }, { signal })))
      return true;
  const path = store?.findPack(pack.digest);
  if (path === undefined || (await stat(path)).size !== pack.size) return false;
  const content = openFileContent({ path, ...pack });
  await repository.putBlob(content, { signal, assumeAbsent: true, onSent: (bytes) => sending.add(bytes) });
  return true;
}

interface SendOptions extends PushPacksOptions {
  readonly named: readonly NamedFile[];
  readonly sending: Meter;
}

type SentPack = Omit<FilledPack, "pieces">;

async function sendFresh(fresh: readonly FreshChunk[], options: SendOptions): Promise<SentPack[]> {
  const requests = await encodeRequests(fresh, options);
  const sent: SentPack[] = [];
  const transfers = new TaskGroup(options.transfers);
  try {
    for await (const pack of encodePacks(requests, { ...options, packBytes })) {
      const room = await options.budget.acquire(pack.size, options);
      await transfers.start(async () => {
        using _room = room;
        await sendPack(pack, options);
      });
      sent.push({ digest: pack.digest, size: pack.size, locations: pack.locations });
    }
    await transfers.finish();
  } finally {
    await transfers.settled();
  }
  return sent;
}

async function sendPack(pack: FilledPack, options: SendOptions): Promise<void> {
  const { repository, store, signal, sending } = options;
  const content = joinPieces(pack.pieces, pack);
  await repository.putBlob(content, { signal, onSent: (bytes) => sending.add(bytes) });
  options.hold?.add([pack.digest]);
  await store?.addPack({
    digest: pack.digest,
    chunks: pack.locations.map(({ base, pack: _pack, ...chunk }) =>
      base ? { ...chunk, baseId: base.id } : chunk,
    ),
    write: async (file) => {
      let at = 0;
      for (const piece of pack.pieces) {
        await file.write(piece, at);
        at += piece.length;
      }
    },
  });
}

/** Chunks with the content they may be encoded against, as far as it is on this node. */
async function encodeRequests(fresh: readonly FreshChunk[], options: SendOptions): Promise<EncodeRequest[]> {
  const files = new Map(options.named.map(({ file }) => [file.name, file]));
  const baseIds = new Set(fresh.flatMap((each) => each.base?.id ?? []));
  const local = (await options.store?.find(baseIds)) ?? new Map<string, ChunkLocator>();
  return fresh.map((chunk) => {
    const { base: _planned, ...alone } = chunk;
    const base = chunk.base && local.get(chunk.base.id);
    const item = {
      fd: files.get(chunk.file)?.fd ?? -1,
      offset: chunk.position * packedChunkBytes,
      id: chunk.id,
      rawLength: chunk.rawLength,
    };
    return base ? { chunk, item: { ...item, base } } : { chunk: alone, item };
  });
}
