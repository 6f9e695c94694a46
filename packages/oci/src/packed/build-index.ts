/** Puts the index of a snapshot together from what is reused and what is new. Pure. */
import { Fault } from "@cocoon/core";
import type { IndexedChunk, IndexedFile, Pack, SnapshotIndex } from "./index-codec.ts";
import { placeKey, type Location } from "./reuse-plan.ts";

export interface IndexParts {
  readonly chunkBytes: number;
  readonly packs: readonly Pack[];
  /** Where each chunk of the files lies, by id. */
  readonly locations: ReadonlyMap<string, Location>;
  readonly files: readonly {
    readonly name: string;
    readonly size: number;
    readonly ids: readonly (string | undefined)[];
  }[];
}

export function buildIndex({ chunkBytes, packs, locations, files }: IndexParts): SnapshotIndex {
  const order = new Map(packs.map((pack, number) => [pack.digest, number]));
  const places = new Map<string, Location>();
  for (const location of locations.values()) {
    places.set(placeKey(location), location);
    if (location.base) places.set(placeKey(location.base), location.base);
  }
  const getPackNumber = (location: Location): number => {
    const number = order.get(location.pack);
    if (number === undefined)
      throw new Fault("internal", `chunk ${location.id} lies in a pack that is not listed`);
    return number;
  };
  const sorted = [...places.values()].sort(
    (a, b) => getPackNumber(a) - getPackNumber(b) || a.offset - b.offset,
  );
  const numbers = new Map(sorted.map((location, number) => [placeKey(location), number]));
  const chunks = sorted.map((location): IndexedChunk => {
    const { id, offset, length, rawLength, encoding, base } = location;
    const place = { id, pack: getPackNumber(location), offset, length, rawLength, encoding };
    return base ? { ...place, base: numbers.get(placeKey(base)) ?? -1 } : place;
  });
  const mapped = files.map((file): IndexedFile => {
    const map = Uint32Array.from(file.ids, (id) => {
      if (id === undefined) return 0;
      const location = locations.get(id);
      if (!location) throw new Fault("internal", `chunk ${id} of ${file.name} lies nowhere`);
      return (numbers.get(placeKey(location)) ?? -1) + 1;
    });
    return { name: file.name, size: file.size, map };
  });
  return { chunkBytes, packs, chunks, files: mapped };
}
