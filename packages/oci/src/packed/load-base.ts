/** Earlier snapshots that a new one may build on. Losing one costs bytes, never correctness. */
import { manifestSchema, mediaType } from "@cocoon/contract";
import { getErrorMessage, type Abortable, type Logger, ignoreFault } from "@cocoon/core";
import type { ChunkStore } from "../chunks/chunk-store.ts";
import { tryReadDigest } from "../digest.ts";
import type { Repository } from "../registry/repository.ts";
import { parseJson } from "../parse-json.ts";
import { indexLimitBytes, readIndex, type SnapshotIndex } from "./index-codec.ts";
import type { BaseSnapshot } from "./reuse-plan.ts";

export interface BaseReference {
  readonly repository: Repository;
  /** Tag or digest. By digest a snapshot may still serve after its manifest was deleted, if this node knows it. */
  readonly reference: string;
}

export interface LoadOptions extends Abortable {
  readonly store?: ChunkStore;
  readonly log: Logger;
}

/** The index of each base that can be had; others are left out. */
export async function loadBases(
  references: readonly BaseReference[],
  options: LoadOptions,
): Promise<BaseSnapshot[]> {
  const bases = await Promise.all(
    references.map(async ({ repository, reference }): Promise<BaseSnapshot | undefined> => {
      try {
        const index = await tryLoad({ repository, reference }, options);
        return index && { index, repository: repository.name };
      } catch (error) {
        options.signal.throwIfAborted();
        const fields = { repo: repository.name, snapshot: reference, error: getErrorMessage(error) };
        options.log.warn(fields, "earlier snapshot cannot be read, nothing of it is reused");
        return undefined;
      }
    }),
  );
  return bases.filter((each) => each !== undefined);
}

async function tryLoad(
  { repository, reference }: BaseReference,
  options: LoadOptions,
): Promise<SnapshotIndex | undefined> {
  const bytes = await tryReadManifest({ repository, reference }, options);
  const manifest = bytes && manifestSchema.safeParse(parseJson(bytes, "manifest"));
  const layer = manifest?.data?.layers[0];
  if (layer?.mediaType !== mediaType.snapshotIndex || layer.size > indexLimitBytes) return undefined;
  const local = await options.store?.tryReadBlob(layer.digest);
  return readIndex(local ?? (await repository.readBlob(layer, options)));
}

async function tryReadManifest(
  { repository, reference }: BaseReference,
  options: LoadOptions,
): Promise<Uint8Array | undefined> {
  const local = tryReadDigest(reference) && (await options.store?.tryReadBlob(reference));
  if (local) return local;
  return (await ignoreFault("notFound", repository.getManifest(reference, options)))?.bytes;
}
