/** What pushes and pulls share: threads, memory, the chunk store. */
import type { Logger } from "@cocoon/core";
import type { ChunkStore, Hold } from "../chunks/chunk-store.ts";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import type { MemoryBudget } from "../work/memory-budget.ts";

export interface Tools {
  readonly pool: WorkerPool;
  readonly budget: MemoryBudget;
  readonly store?: ChunkStore;
  /** Keeps what this operation adds to the store until it is pinned. */
  readonly hold?: Hold;
  /** Transfers at the same time. */
  readonly transfers: number;
  readonly log: Logger;
}
