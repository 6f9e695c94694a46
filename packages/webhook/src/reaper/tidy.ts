/** Removes shards that are of no use any more. Safe beside other replicas: each removal names the version it was seen in. */
import { isFault, type Abortable, type Logger } from "@cocoon/core";
import type { Ledger } from "../store/ledger.ts";
import type { ShardWrites } from "../store/shard-writes.ts";

export interface TidyOptions {
  readonly ledger: Ledger;
  readonly writes: ShardWrites;
  readonly log: Logger;
}

/** An empty shard that takes nothing new is of no use; the first one stays, others look for it, and so does the last. */
export async function removeEmptyShards(
  { ledger, writes, log }: TidyOptions,
  { signal }: Abortable,
): Promise<void> {
  for (const shard of ledger.shards()) {
    const isLast = ledger.shardsOf(shard.pool).at(-1)?.name === shard.name;
    if (shard.index === 0 || !shard.sealed || shard.held.size > 0 || isLast) continue;
    try {
      await writes.delete(shard.name, shard.version, { signal });
      log.info({ shard: shard.name }, "empty shard removed");
    } catch (error) {
      // Somebody else removed it, or changed it since: then it is looked at again next time.
      if (!isFault(error, "conflict") && !isFault(error, "notFound")) throw error;
    }
  }
}
