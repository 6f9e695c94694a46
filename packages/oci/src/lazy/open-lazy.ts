/** A packed snapshot of a registry, opened so that its files can be read before they are here. */
import { Fault, type Abortable } from "@cocoon/core";
import type { ChunkStore } from "../chunks/chunk-store.ts";
import type { SnapshotIndex } from "../packed/index-codec.ts";
import type { Repository } from "../registry/repository.ts";
import { readPackedIndex } from "../snapshot/pull-snapshot.ts";
import { readSnapshot } from "../snapshot/read-snapshot.ts";
import { ChunkLoader, type ReadPack } from "./chunk-loader.ts";

export interface LazySnapshot {
  readonly digest: string;
  readonly index: SnapshotIndex;
  readonly readPack: ReadPack;
}

interface OpenOptions extends Abortable {
  readonly repository: Repository;
  /** Tag or digest. */
  readonly reference: string;
  readonly store?: ChunkStore | undefined;
}

/** `notSupported` for a snapshot of another format: that is pulled whole. */
export async function openLazySnapshot({
  repository,
  reference,
  store,
  signal,
}: OpenOptions): Promise<LazySnapshot> {
  const found = await readSnapshot(repository, reference, { signal });
  if (found.config.schemaVersion !== "packed-v1")
    throw new Fault("notSupported", `the snapshot's format is ${found.config.schemaVersion}, not packed`);
  const index = await readPackedIndex(found, { repository, signal, ...(store ? { store } : {}) });
  return {
    digest: found.digest,
    index,
    readPack: (number, { offset, length }, options) => {
      const pack = index.packs[number];
      if (!pack) throw new Fault("internal", `there is no pack ${number}`);
      return repository.readBlob({ ...pack, offset, length }, options);
    },
  };
}

/** One small file of the snapshot, whole and checked. */
export async function readLazyFile(
  snapshot: LazySnapshot,
  name: string,
  { store, signal }: Abortable & { readonly store?: ChunkStore | undefined },
): Promise<Buffer> {
  const { index } = snapshot;
  const file = index.files.find((each) => each.name === name);
  if (!file) throw new Fault("invalid", `the snapshot has no file ${name}`);
  const loader = new ChunkLoader({ ...snapshot, files: [], store, signal });
  const pieces: Uint8Array[] = [];
  for (const [position, reference] of file.map.entries()) {
    const length = Math.min(index.chunkBytes, file.size - position * index.chunkBytes);
    pieces.push(reference === 0 ? Buffer.alloc(length) : await loader.readContent(reference - 1));
  }
  return Buffer.concat(pieces);
}
