/** The index from digests to tags, for content that was stored before the index existed. */
import type { Storage } from "../storage/storage.ts";
import { layout } from "../storage/layout.ts";
import type { ManifestStore } from "./manifest-store.ts";
import { settleAll } from "./settle-all.ts";

const batchSize = 64;

/** Does nothing when the index is complete. May be repeated; a crash in the middle costs a repetition. */
export async function ensureTagIndex(storage: Storage, manifests: ManifestStore): Promise<void> {
  if (await storage.stat(layout.tagIndex)) return;
  for (const name of await manifests.repositories()) {
    const records = await manifests.tagRecords(name);
    for (let start = 0; start < records.length; start += batchSize)
      await settleAll(
        records
          .slice(start, start + batchSize)
          .map((record) => storage.put(layout.tagged(name, record), new Uint8Array())),
      );
  }
  await storage.put(layout.tagIndex, new Uint8Array());
}
