/**
 * Snapshots in registries: push, pull, read, move tags, delete. One client per
 * process is enough; its worker threads and its memory budget are shared by all transfers.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { silentLogger, type Logger } from "@cocoon/core";
import { exportArchive, type ExportArchiveOptions } from "../archive/export-archive.ts";
import { ChunkStore, type ChunkStoreOptions } from "../chunks/chunk-store.ts";
import { WorkerPool } from "../chunks/worker-pool.ts";
import { MemoryBudget } from "../work/memory-budget.ts";
import { pushCloudImage, type CloudImageReport, type PushCloudImageOptions } from "./cloud-image.ts";
import { pullSnapshot, type PullReport, type PullSnapshotOptions } from "./pull-snapshot.ts";
import { pushSnapshot, type PushReport, type PushSnapshotOptions } from "./push-snapshot.ts";
import type { Tools } from "./tools.ts";

interface SnapshotClientOptions {
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

export interface VerifyOptions extends Pick<
  PullSnapshotOptions,
  "repository" | "reference" | "signal" | "onProgress"
> {
  /** Where there is room for the snapshot while it is looked at. */
  readonly workDirectory: string;
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
   * Pushes a snapshot and returns its digest after reading it back from the registry. May be
   * repeated: what arrived the first time is not sent again. The tag moves last.
   */
  push(options: PushSnapshotOptions): Promise<PushReport> {
    return pushSnapshot(options, this.#tools);
  }

  /** Builds a directory from a snapshot of any format. A single wrong bit is a Fault, and the directory is not there. */
  pull(options: PullSnapshotOptions): Promise<PullReport> {
    return pullSnapshot(options, this.#tools);
  }

  /**
   * Reads a whole snapshot from the registry and checks every byte, without using what this node has. Throws what is
   * wrong.
   */
  async verify({ workDirectory, ...options }: VerifyOptions): Promise<PullReport> {
    const { store: _ours, ...tools } = this.#tools;
    const path = await mkdtemp(join(workDirectory, ".verify-"));
    try {
      return await pullSnapshot({ ...options, directory: join(path, "snapshot") }, tools);
    } finally {
      await rm(path, { recursive: true, force: true });
    }
  }

  /** Pushes a disk as a cloud image. May be repeated. */
  pushCloudImage(options: PushCloudImageOptions): Promise<CloudImageReport> {
    return pushCloudImage(options, this.#tools);
  }

  /** A snapshot on disk as a tar archive. Destroy the stream to give up. */
  exportArchive(options: Omit<ExportArchiveOptions, "pool">): Readable {
    return exportArchive({ ...options, pool: this.#tools.pool });
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
