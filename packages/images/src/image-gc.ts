/** Removes what no image names: old blobs, builds of older recipes, downloads and abandoned work. */
import { rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { tryLockFile, type Abortable } from "@cocoon/core";
import type { ImageGcReport } from "@cocoon/vm";
import { listDirectory } from "./blob-store.ts";
import { downloadDirectory } from "./cloud/pull-url.ts";
import type { ImageContext } from "./image-files.ts";

/**
 * Builds that the present version would use stay even while no image does: they are small, and the next start should
 * not need the network for them. `keepBuilds` are their keys.
 */
export async function collectGarbage(
  context: ImageContext,
  keepBuilds: ReadonlySet<string>,
  options: Abortable,
): Promise<ImageGcReport> {
  const { store, records } = context;
  const removed: string[] = [];
  let freedBytes = 0;
  const remove = async (path: string): Promise<void> => {
    freedBytes += await allocated(path);
    await rm(path, { recursive: true, force: true });
    removed.push(path);
  };
  await using _lock = await store.lock("commit", options);
  const used = new Set((await records.list()).map(({ disk }) => disk.blob));
  for (const key of await store.buildKeys()) {
    const build = keepBuilds.has(key) ? await store.tryBuild(key) : undefined;
    if (build) for (const hex of Object.values(build.outputs)) used.add(hex);
    else await store.forgetBuild(key);
  }
  for (const hex of await listDirectory(join(store.directory, "blobs"))) {
    if (!used.has(hex)) await remove(store.blobPath(hex));
  }
  for (const path of await store.abandonedWork()) await remove(path);
  await removeDownloads(context, remove);
  return { removed, freedBytes };
}

/** A download holds a lock named after the URL; a part without a holder is abandoned. */
async function removeDownloads(
  context: ImageContext,
  remove: (path: string) => Promise<void>,
): Promise<void> {
  const directory = downloadDirectory(context);
  for (const file of await listDirectory(directory)) {
    const hex = file.split(".")[0] ?? "";
    using lock = tryLockFile(context.store.lockPath(`pull-${hex.slice(0, 32)}`));
    if (!lock) continue;
    await remove(join(directory, file));
  }
}

async function allocated(path: string): Promise<number> {
  return stat(path).then(
    ({ blocks }) => blocks * 512,
    () => 0,
  );
}
