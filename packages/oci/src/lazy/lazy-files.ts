/**
 * The files of a packed snapshot that fill up while they are in use: what a reader waits for comes first, then the
 * recorded working set, then the rest in the background, which steps aside for readers.
 */
import { availableParallelism } from "node:os";
import { sleep, type Abortable } from "@cocoon/core";
import { WorkerPool } from "../chunks/worker-pool.ts";
import { forEachParallel } from "../work/parallel.ts";
import { ChunkLoader, type ChunkLoaderOptions } from "./chunk-loader.ts";
import type { WorkingSet } from "./working-set.ts";

export interface LazyCounts {
  readonly totalBytes: number;
  readonly doneBytes: number;
  readonly fetchedBytes: number;
  /** Reads that had to wait for content. */
  readonly waits: number;
  readonly longestWaitMs: number;
  readonly problem: string;
}

/** Chunks of the pack that are brought along with one that a reader waits for. */
const neighbours = 8;
const windowEntries = 64;
const pieceBytes = 1024 * 1024;
const parallel = 4;
/** As many as a fast link keeps busy; each holds some megabytes. */
const threads = Math.min(2, availableParallelism());
/** The background waits while readers do, but not for ever. */
const politeMs = { after: 20, step: 3, most: 100 };

export class LazyFiles {
  /** Its threads start with the first work. */
  readonly #pool: WorkerPool | undefined;
  readonly #loader: ChunkLoader;
  readonly #signal: AbortSignal;
  readonly #totalBytes: number;
  #open = 0;
  #lastDemand = 0;
  #waits = 0;
  #longestWaitMs = 0;

  constructor(options: Omit<ChunkLoaderOptions, "pool">) {
    this.#pool = options.store && new WorkerPool({ threads });
    this.#loader = new ChunkLoader({ ...options, pool: this.#pool });
    this.#signal = options.signal;
    this.#totalBytes = this.#loader.totalBytes;
  }

  get counts(): LazyCounts {
    const { doneBytes, fetchedBytes, problem } = this.#loader;
    return {
      totalBytes: this.#totalBytes,
      doneBytes,
      fetchedBytes,
      waits: this.#waits,
      longestWaitMs: this.#longestWaitMs,
      problem,
    };
  }

  /** Whether that range is in the local file. */
  has(file: number, offset: number, length: number): boolean {
    return this.#numbers(file, offset, length).every((each) => this.#loader.has(each));
  }

  /** Resolves when that range is in the local file; a reader waits for it. */
  async ensure(file: number, offset: number, length: number): Promise<void> {
    const missing = this.#numbers(file, offset, length).filter((each) => !this.#loader.has(each));
    if (missing.length === 0) return;
    const began = performance.now();
    this.#open += 1;
    try {
      await Promise.all(missing.map((each) => this.#loader.load(this.#withNeighbours(each))));
    } finally {
      this.#open -= 1;
      this.#lastDemand = performance.now();
      this.#waits += 1;
      this.#longestWaitMs = Math.max(this.#longestWaitMs, this.#lastDemand - began);
    }
  }

  /** Whole files, as fast as possible. */
  async loadFiles(files: readonly number[]): Promise<void> {
    const numbers = files.flatMap((file) => this.#numbers(file, 0, this.#size(file)));
    await this.#loadPieces(numbers, { polite: false });
  }

  /** What the machine needed until it answered; in windows: near to the recorded order, and few requests. */
  async loadWorkingSet(set: WorkingSet): Promise<void> {
    const { index } = this.#loader;
    if (set.chunkBytes !== index.chunkBytes) return;
    const maps = new Map(index.files.map((file) => [file.name, file.map]));
    const numbers = set.entries.slice(0, set.untilAnswer).flatMap(({ file, position }) => {
      const reference = maps.get(file)?.[position] ?? 0;
      return reference === 0 ? [] : [reference - 1];
    });
    const windows = Array.from({ length: Math.ceil(numbers.length / windowEntries) }, (_each, at) =>
      numbers.slice(at * windowEntries, (at + 1) * windowEntries),
    );
    await forEachParallel(windows, 2, (window) => this.#loadPieces(window, { polite: false, parallel: 2 }));
  }

  /** Everything that is still missing. */
  async loadRest(): Promise<void> {
    const { index } = this.#loader;
    await this.#loader.keepFetched();
    await this.#loadPieces([...index.chunks.keys()], { polite: true });
    await this.#loader.keepFetched();
    await this.#pool?.[Symbol.asyncDispose]();
  }

  async #loadPieces(
    numbers: readonly number[],
    options: { readonly polite: boolean; readonly parallel?: number },
  ): Promise<void> {
    const missing = [...new Set(numbers)].filter((each) => !this.#loader.has(each)).sort((a, b) => a - b);
    await forEachParallel(this.#cut(missing), options.parallel ?? parallel, async (piece) => {
      if (options.polite) await this.#stepAside({ signal: this.#signal });
      await this.#loader.load(piece, { background: options.polite });
    });
  }

  async #stepAside(options: Abortable): Promise<void> {
    const until = performance.now() + politeMs.most;
    const isBusy = () => this.#open > 0 || performance.now() - this.#lastDemand < politeMs.after;
    while (isBusy() && performance.now() < until) await sleep(politeMs.step, options);
    options.signal.throwIfAborted();
  }

  /** Pieces of one pack and about a request each. */
  #cut(numbers: readonly number[]): number[][] {
    const { chunks } = this.#loader.index;
    const pieces: number[][] = [];
    let bytes = 0;
    for (const number of numbers) {
      const chunk = chunks[number];
      const last = pieces.at(-1);
      const before = last && chunks[last.at(-1) ?? -1];
      if (last && before && chunk && before.pack === chunk.pack && bytes + chunk.length <= pieceBytes) {
        last.push(number);
        bytes += chunk.length;
      } else {
        pieces.push([number]);
        bytes = chunk?.length ?? 0;
      }
    }
    return pieces;
  }

  #withNeighbours(number: number): number[] {
    const { chunks } = this.#loader.index;
    const run = [number];
    const pack = chunks[number]?.pack;
    for (let next = number + 1; run.length < neighbours && chunks[next]?.pack === pack; next += 1) {
      if (this.#loader.has(next) || this.#loader.isLoading(next)) break;
      run.push(next);
    }
    return run;
  }

  #numbers(file: number, offset: number, length: number): number[] {
    const { index } = this.#loader;
    const { map = new Uint32Array(0), size = 0 } = index.files[file] ?? {};
    const end = Math.ceil(Math.min(offset + length, size) / index.chunkBytes);
    const numbers: number[] = [];
    for (let at = Math.floor(offset / index.chunkBytes); at < end; at += 1) {
      const reference = map[at] ?? 0;
      if (reference > 0) numbers.push(reference - 1);
    }
    return numbers;
  }

  #size(file: number): number {
    return this.#loader.index.files[file]?.size ?? 0;
  }
}
