/**
 * Snapshots in registries, for everybody who keeps machines: push, pull, look, move tags, delete. One client per
 * process is enough; its worker threads and its memory budget are shared by all transfers.
 */
import { silentLogger, type Logger } from "@cocoon/core";
import { ChunkStore, type ChunkStoreOptions } from "../chunks/chunk-store.ts";
import { WorkerPool } from "../chunks/worker-pool.ts";
import { MemoryBudget } from "../work/memory-budget.ts";
import { pullSnapshot, type PullReport, type PullSnapshotOptions } from "./pull-snapshot.ts";
import { pushSnapshot, type PushReport, type PushSnapshotOptions } from "./push-snapshot.ts";
import type { Tools } from "./tools.ts";

export interface SnapshotClientOptions {
  /** The chunk store of this node; without one every pull fetches everything. */
  readonly store?: ChunkStoreOptions;
  /** Worker threads; default one per core. */
  readonly threads?: number;
  /** Bytes that all transfers together may hold in memory. */
  readonly memoryBytes?: number;
  /** Requests with content at the same time. */
  readonly transfers?: number;
  readonly log?: Logger;
}

const defaults = { memoryBytes: 256 * 1024 * 1024, transfers: 8 };

export class SnapshotClient implements AsyncDisposable {
  readonly #tools: Tools;

  constructor(tools: Tools) {
    this.#tools = tools;
  }

  /** The node's chunk store, if there is one. */
  get store(): ChunkStore | undefined {
    return this.#tools.store;
  }

  /**
   * Pushes a snapshot and returns its digest once the registry was asked for it and gave that digest back. May be
   * repeated: what arrived the first time is not sent again. The tag moves last.
   */
  push(options: PushSnapshotOptions): Promise<PushReport> {
    return pushSnapshot(options, this.#tools);
  }

  /** Builds a directory from a snapshot of any format. A single wrong bit is a Fault, and the directory is not there. */
  pull(options: PullSnapshotOptions): Promise<PullReport> {
    return pullSnapshot(options, this.#tools);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#tools.pool[Symbol.asyncDispose]();
    this.#tools.store?.[Symbol.dispose]();
  }
}

export async function openSnapshotClient(options: SnapshotClientOptions = {}): Promise<SnapshotClient> {
  const { log = silentLogger, memoryBytes, transfers } = { ...defaults, ...options };
  return new SnapshotClient({
    pool: new WorkerPool(options.threads === undefined ? {} : { threads: options.threads }),
    budget: new MemoryBudget(memoryBytes),
    transfers,
    log,
    ...(options.store ? { store: await ChunkStore.open({ log, ...options.store }) } : {}),
  });
}
