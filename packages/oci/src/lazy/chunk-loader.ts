/**
 * Brings single chunks of a packed snapshot into local files, wherever each can be had: the file itself after a restart,
 * the node's chunk store, the registry. No byte is written that was not checked against its digest. It never gives
 * up by itself: a registry that does not answer, or that answers with wrong bytes, is asked again until the signal aborts.
 */
import { closeSync, openSync, readSync, writeSync } from "node:fs";
import { Backoff, getErrorMessage, sleep, type Abortable } from "@cocoon/core";
import type { ChunkStore } from "../chunks/chunk-store.ts";
import { chunkId, decodeChunk } from "../chunks/codec.ts";
import type { WorkerPool } from "../chunks/worker-pool.ts";
import type { ChunkLocator } from "../chunks/worker-protocol.ts";
import type { IndexedChunk, SnapshotIndex } from "../packed/index-codec.ts";
import { joinStretches, type Stretch } from "./stretches.ts";

/** Reads a part of a pack from the registry. */
export type ReadPack = (pack: number, stretch: Stretch, options: Abortable) => Promise<Buffer>;

export interface ChunkLoaderOptions extends Abortable {
  readonly index: SnapshotIndex;
  /** One descriptor per file of the index; none: contents are only returned. */
  readonly files: readonly number[];
  readonly readPack: ReadPack;
  readonly store?: ChunkStore | undefined;
  /** The files may hold content of an earlier attempt. */
  readonly resumed?: boolean;
  /** Threads that check and write what comes in the background; needs the store. */
  readonly pool?: WorkerPool | undefined;
}

/** A part of a pack that came over the network and is not in the node's chunk store yet. */
interface Fetched {
  readonly stretch: Stretch;
  readonly bytes: Buffer;
}

interface Place {
  readonly fd: number;
  readonly offset: number;
}

const retry = { baseMs: 50, maxMs: 2_000 };

export class ChunkLoader {
  readonly index: SnapshotIndex;
  /** Bytes that came over the network. */
  fetchedBytes = 0;
  /** Content of the machine that is in the files. */
  doneBytes = 0;
  /** What the last attempt failed with; empty while all is well. */
  problem = "";
  readonly #options: ChunkLoaderOptions;
  readonly #have: Uint8Array;
  readonly #places: (Place[] | undefined)[];
  readonly #loading = new Map<number, Promise<void>>();
  #unkept: Fetched[] = [];

  constructor(options: ChunkLoaderOptions) {
    this.#options = options;
    this.index = options.index;
    this.#have = new Uint8Array(options.index.chunks.length);
    this.#places = collectPlaces(options);
  }

  /** Content that all files together have, zero chunks apart. */
  get totalBytes(): number {
    let bytes = 0;
    for (const [number, places] of this.#places.entries())
      bytes += (places?.length ?? 0) * this.#chunk(number).rawLength;
    return bytes;
  }

  has(number: number): boolean {
    return this.#have[number] === 1 || this.#places[number] === undefined;
  }

  isLoading(number: number): boolean {
    return this.#loading.has(number);
  }

  /**
   * Loads chunks of one pack, in the order of their numbers. Those that are on their way already are waited for. With
   * `background`, no reader waits: other threads do the work where there are some.
   */
  async load(
    numbers: readonly number[],
    { background = false }: { readonly background?: boolean } = {},
  ): Promise<void> {
    const fresh = numbers.filter((each) => !this.has(each) && !this.#loading.has(each));
    const waits = new Set(numbers.flatMap((each) => this.#loading.get(each) ?? []));
    if (fresh.length > 0) {
      const work = this.#loadFresh(fresh, background).finally(() =>
        fresh.forEach((each) => this.#loading.delete(each)),
      );
      for (const each of fresh) this.#loading.set(each, work);
      waits.add(work);
    }
    await Promise.all(waits);
  }

  async #loadFresh(numbers: readonly number[], background: boolean): Promise<void> {
    let missing = numbers;
    if (this.#options.resumed) missing = missing.filter((each) => !this.#adopt(each));
    missing = background ? await this.#placeStored(missing) : await this.#takeFromStore(missing);
    const numbersByChunk = new Map(missing.map((each) => [this.#chunk(each), each]));
    for (const stretch of joinStretches([...numbersByChunk.keys()])) {
      const wanted = stretch.chunks.flatMap((chunk) => numbersByChunk.get(chunk) ?? []);
      await (background ? this.#fetchInBackground(stretch, wanted) : this.#fetch(stretch, wanted));
    }
  }

  /**
   * Puts what readers waited for into the node's chunk store, for the next wake here and for other machines. Not done when it
   * came: the reader would have waited for that as well.
   */
  async keepFetched(): Promise<void> {
    for (const each of this.#unkept.splice(0)) await this.#keep(each);
  }

  /** Content of a chunk, from the file that has it or from elsewhere. */
  async readContent(number: number): Promise<Uint8Array> {
    const chunk = this.#chunk(number);
    const local = this.#have[number] === 1 ? this.#readPlace(number) : undefined;
    if (local) return local;
    const found = (await this.#options.store?.find([chunk.id]))?.get(chunk.id);
    const stored = found && tryReadStored(found);
    if (stored) return stored;
    const stretch = { offset: chunk.offset, length: chunk.length, chunks: [chunk] };
    return this.#persist(async () => {
      const bytes = await this.#read(stretch);
      const content = await this.#decode(chunk, bytes);
      if (this.#options.store) this.#unkept.push({ stretch, bytes });
      return content;
    });
  }

  async #fetch(stretch: Stretch, wanted: readonly number[]): Promise<void> {
    const bytes = await this.#persist(async () => {
      const bytes = await this.#read(stretch);
      for (const number of wanted) await this.#placeFrom(number, stretch, bytes);
      return bytes;
    });
    if (this.#options.store) this.#unkept.push({ stretch, bytes });
  }

  /** First into the store, from where threads take it. What is wrong there is fetched again, and checked here. */
  async #fetchInBackground(stretch: Stretch, wanted: readonly number[]): Promise<void> {
    const bytes = await this.#persist(() => this.#read(stretch));
    await this.#keep({ stretch, bytes });
    const missing = this.#options.pool ? await this.#placeStored(wanted) : wanted;
    try {
      for (const number of missing) await this.#placeFrom(number, stretch, bytes);
    } catch {
      this.#options.signal.throwIfAborted();
      await this.#fetch(stretch, missing);
      await this.keepFetched();
    }
  }

  // oxlint-disable-next-line max-params -- a chunk, and bytes with their place
  async #placeFrom(number: number, stretch: Stretch, bytes: Buffer): Promise<void> {
    if (this.has(number)) return; // by an attempt before
    const chunk = this.#chunk(number);
    const at = chunk.offset - stretch.offset;
    this.#place(number, await this.#decode(chunk, bytes.subarray(at, at + chunk.length)));
  }

  /** A copy for other machines of this node; without it nothing is lost. */
  async #keep({ stretch, bytes }: Fetched): Promise<void> {
    const digest = this.index.packs[getPack(stretch)]?.digest;
    if (digest === undefined) return;
    const chunks = stretch.chunks.map(({ base, pack: _pack, ...chunk }) =>
      base === undefined ? chunk : { ...chunk, baseId: this.#chunk(base).id },
    );
    const write = (file: { write(bytes: Uint8Array, offset: number): Promise<void> }): Promise<void> =>
      file.write(bytes, stretch.offset);
    await this.#options.store?.addPack({ digest, partial: true, chunks, write }).catch(() => undefined);
  }

  async #read(stretch: Stretch): Promise<Buffer> {
    const bytes = await this.#options.readPack(getPack(stretch), stretch, this.#options);
    this.fetchedBytes += bytes.length;
    return bytes;
  }

  async #decode(chunk: IndexedChunk, bytes: Uint8Array): Promise<Uint8Array> {
    const { base, ...encoded } = chunk;
    const basis = base === undefined ? {} : { base: await this.readContent(base) };
    return decodeChunk({ ...encoded, bytes, ...basis });
  }

  async #persist<T>(work: () => Promise<T>): Promise<T> {
    const { signal } = this.#options;
    const backoff = new Backoff(retry);
    for (;;) {
      try {
        const done = await work();
        this.problem = "";
        return done;
      } catch (error) {
        signal.throwIfAborted();
        this.problem = getErrorMessage(error);
      }
      await sleep(backoff.nextMs(), { signal });
      signal.throwIfAborted();
    }
  }

  /** Chunks that the node has already; returns those that it does not. */
  async #takeFromStore(numbers: readonly number[]): Promise<readonly number[]> {
    const { store } = this.#options;
    if (!store || numbers.length === 0) return numbers;
    const found = await store.find(numbers.map((each) => this.#chunk(each).id));
    return numbers.filter((number) => {
      const locator = found.get(this.#chunk(number).id);
      const content = locator && tryReadStored(locator);
      if (content) this.#place(number, content);
      return !content;
    });
  }

  /** As `#takeFromStore`, by other threads. */
  async #placeStored(numbers: readonly number[]): Promise<readonly number[]> {
    const { store, pool, signal } = this.#options;
    if (!store || !pool) return this.#takeFromStore(numbers);
    const located = await store.find(numbers.map((each) => this.#chunk(each).id));
    const stored = numbers.flatMap((number) => {
      const locator = located.get(this.#chunk(number).id);
      const targets = this.#places[number];
      return locator && targets ? [{ number, candidates: [locator], targets }] : [];
    });
    if (stored.length === 0) return numbers;
    const { found } = await pool.run({ kind: "decode", items: stored }, { signal });
    const damaged: string[] = [];
    for (const [index, { number, candidates }] of stored.entries())
      if (found[index] === 0) this.#note(number);
      else damaged.push(...candidates.map(({ id }) => id));
    await store.forgetChunks(damaged);
    return numbers.filter((each) => !this.has(each));
  }

  /** Whether an earlier attempt has written it. */
  #adopt(number: number): boolean {
    const content = this.#readPlace(number);
    const matches = content !== undefined && chunkId(content) === this.#chunk(number).id;
    if (content && matches) this.#place(number, content);
    return matches;
  }

  #readPlace(number: number): Buffer | undefined {
    const place = this.#places[number]?.[0];
    if (!place) return undefined;
    const content = Buffer.allocUnsafe(this.#chunk(number).rawLength);
    return readSync(place.fd, content, 0, content.length, place.offset) === content.length
      ? content
      : undefined;
  }

  #place(number: number, content: Uint8Array): void {
    for (const { fd, offset } of this.#places[number] ?? []) writeFully(fd, content, offset);
    this.#note(number);
  }

  /** It is in all its places. */
  #note(number: number): void {
    this.doneBytes += (this.#places[number]?.length ?? 0) * this.#chunk(number).rawLength;
    this.#have[number] = 1;
  }

  #chunk(number: number): IndexedChunk {
    const chunk = this.index.chunks[number];
    if (!chunk) throw new RangeError(`there is no chunk ${number}`);
    return chunk;
  }
}

function getPack({ chunks }: Stretch): number {
  return chunks[0]?.pack ?? -1;
}

function collectPlaces({ index, files }: ChunkLoaderOptions): (Place[] | undefined)[] {
  const places: (Place[] | undefined)[] = Array.from({ length: index.chunks.length });
  for (const [fileNumber, file] of index.files.entries()) {
    const fd = files[fileNumber];
    if (fd === undefined) continue;
    for (const [position, reference] of file.map.entries())
      if (reference > 0) (places[reference - 1] ??= []).push({ fd, offset: position * index.chunkBytes });
  }
  return places;
}

function writeFully(fd: number, content: Uint8Array, offset: number): void {
  for (let done = 0; done < content.length;)
    done += writeSync(fd, content, done, content.length - done, offset + done);
}

/** Undefined when it is damaged or was removed meanwhile: then it is fetched. */
function tryReadStored(locator: ChunkLocator): Uint8Array | undefined {
  try {
    const { base, ...chunk } = locator;
    if (!base) return decodeChunk({ ...chunk, bytes: readStored(locator) });
    if (!("path" in base)) return undefined;
    const { base: _none, ...whole } = base; // a base is never a delta itself
    const content = decodeChunk({ ...whole, bytes: readStored(base) });
    return decodeChunk({ ...chunk, bytes: readStored(locator), base: content });
  } catch {
    return undefined;
  }
}

function readStored({ path, offset, length }: ChunkLocator): Buffer {
  const fd = openSync(path, "r");
  try {
    const bytes = Buffer.allocUnsafe(length);
    const count = readSync(fd, bytes, 0, length, offset);
    return bytes.subarray(0, count);
  } finally {
    closeSync(fd);
  }
}
