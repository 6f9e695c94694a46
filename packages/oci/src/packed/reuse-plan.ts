/**
 * Decides what a new snapshot takes over from earlier ones. Pure: the same machine and the same bases give the
 * same plan, so that a push that was cut off finds its own packs again.
 *
 * A pack is taken over whole or not at all, and a snapshot lists every pack it needs; so a pack that is mostly dead
 * would keep dead bytes alive for as long as a snapshot refers to it. Such packs are left behind and what still
 * lives in them is sent again. What a changed chunk was before counts as living: the chunk can be encoded against
 * it. A crowd of very small packs is left behind as well. So a machine may sleep as often as it likes: what its
 * snapshot stores stays within about twice what it needs, and the number of requests stays small.
 */
import type { IndexedChunk, SnapshotIndex } from "./index-codec.ts";
import type { StoredChunk } from "../chunks/worker-protocol.ts";

/** A chunk that the new snapshot needs, at its first place. */
export interface WantedChunk {
  readonly id: string;
  readonly rawLength: number;
  readonly file: string;
  readonly position: number;
}

/** An encoded chunk inside a pack that exists already. */
export interface Location extends StoredChunk {
  readonly pack: string;
  readonly base?: Location;
}

export interface KnownPack {
  readonly digest: string;
  readonly size: number;
  /** Full names of the repositories whose snapshots use it. */
  readonly repositories: ReadonlySet<string>;
}

export interface BaseSnapshot {
  readonly index: SnapshotIndex;
  readonly repository: string;
}

export interface FreshChunk extends WantedChunk {
  /** What was at the same place before and stays: worth encoding against. */
  readonly base?: Location;
}

export interface ReusePlan {
  /** Packs that stay in use, in a stable order. */
  readonly packs: readonly KnownPack[];
  readonly reused: ReadonlyMap<string, Location>;
  /** Chunks to send, in the order in which they appear. */
  readonly fresh: readonly FreshChunk[];
}

export interface PlanOptions {
  /** Packs that turned out to be gone. */
  readonly lost?: ReadonlySet<string>;
  readonly smallPackBytes?: number;
  readonly smallPacks?: number;
}

const leastLivePart = 0.5;
const defaults = { smallPackBytes: 1024 * 1024, smallPacks: 32 };

export function planReuse(
  wanted: readonly WantedChunk[],
  bases: readonly BaseSnapshot[],
  options: PlanOptions = {},
): ReusePlan {
  const packs = knownPacks(bases);
  const candidates = locate(new Set(wanted.map((each) => each.id)), bases);
  const before = earlierContent(bases);
  const dropped = new Set(options.lost);
  for (;;) {
    const reused = choose(candidates, dropped);
    const fresh = freshChunks(wanted, reused, (chunk) => before(chunk, dropped));
    const live = liveBytes([...reused.values(), ...fresh.flatMap((each) => each.base ?? [])]);
    const useless = [...live].filter(([pack, bytes]) => bytes < (packs.get(pack)?.size ?? 0) * leastLivePart);
    const kept = [...live.keys()].flatMap((each) => packs.get(each) ?? []);
    const crowd = crowded(kept, options);
    if (useless.length === 0 && crowd.length === 0) return { packs: kept, reused, fresh };
    for (const [pack] of useless) dropped.add(pack);
    for (const pack of crowd) dropped.add(pack.digest);
  }
}

function knownPacks(bases: readonly BaseSnapshot[]): Map<string, KnownPack> {
  const packs = new Map<string, KnownPack & { readonly repositories: Set<string> }>();
  for (const { index, repository } of bases) {
    for (const pack of index.packs) {
      const known = packs.get(pack.digest) ?? { ...pack, repositories: new Set<string>() };
      known.repositories.add(repository);
      packs.set(pack.digest, known);
    }
  }
  return packs;
}

/** Every place where a wanted chunk lies, the first base first. */
function locate(wanted: ReadonlySet<string>, bases: readonly BaseSnapshot[]): Map<string, Location[]> {
  const found = new Map<string, Location[]>();
  for (const { index } of bases) {
    for (const chunk of index.chunks) {
      if (!wanted.has(chunk.id)) continue;
      const places = found.get(chunk.id) ?? [];
      places.push(getLocation(index, chunk));
      found.set(chunk.id, places);
    }
  }
  return found;
}

function getLocation(index: SnapshotIndex, chunk: IndexedChunk): Location {
  const base = chunk.base === undefined ? undefined : index.chunks[chunk.base];
  const { id, offset, length, rawLength, encoding } = chunk;
  const place = { id, pack: index.packs[chunk.pack]?.digest ?? "", offset, length, rawLength, encoding };
  return base ? { ...place, base: getLocation(index, base) } : place;
}

function choose(
  candidates: ReadonlyMap<string, readonly Location[]>,
  dropped: ReadonlySet<string>,
): Map<string, Location> {
  const chosen = new Map<string, Location>();
  for (const [id, places] of candidates) {
    const place = places.find(
      (each) => !dropped.has(each.pack) && !(each.base && dropped.has(each.base.pack)),
    );
    if (place) chosen.set(id, place);
  }
  return chosen;
}

function liveBytes(locations: Iterable<Location>): Map<string, number> {
  const bytes = new Map<string, number>();
  const counted = new Set<string>();
  for (const location of locations) {
    for (const each of location.base ? [location, location.base] : [location]) {
      const key = placeKey(each);
      if (counted.has(key)) continue;
      counted.add(key);
      bytes.set(each.pack, (bytes.get(each.pack) ?? 0) + each.length);
    }
  }
  return bytes;
}

/** Names an encoded chunk by where it lies: the same content may exist in several encodings. */
export function placeKey(location: Pick<Location, "pack" | "offset">): string {
  return `${location.pack}+${location.offset}`;
}

function crowded(packs: readonly KnownPack[], options: PlanOptions): KnownPack[] {
  const { smallPackBytes, smallPacks } = { ...defaults, ...options };
  const small = packs.filter((each) => each.size < smallPackBytes);
  return small.length > smallPacks ? small : [];
}

function freshChunks(
  wanted: readonly WantedChunk[],
  reused: ReadonlyMap<string, Location>,
  before: (chunk: WantedChunk) => Location | undefined,
): FreshChunk[] {
  return wanted
    .filter((each) => !reused.has(each.id))
    .map((chunk) => {
      const base = before(chunk);
      return base ? { ...chunk, base } : chunk;
    });
}

/** Looks up what was at the place of a chunk in the first base that has something there, and lies in a usable pack. */
function earlierContent(
  bases: readonly BaseSnapshot[],
): (chunk: WantedChunk, dropped: ReadonlySet<string>) => Location | undefined {
  const files = bases.map(({ index }) => new Map(index.files.map((file) => [file.name, file])));
  return (chunk, dropped) => {
    for (const [number, { index }] of bases.entries()) {
      const reference = files[number]?.get(chunk.file)?.map[chunk.position] ?? 0;
      const earlier = reference === 0 ? undefined : index.chunks[reference - 1];
      if (!earlier) continue;
      const location = getLocation(index, earlier);
      const root = location.base ?? location; // a delta never stands on a delta
      if (!dropped.has(root.pack)) return root;
    }
    return undefined;
  };
}
