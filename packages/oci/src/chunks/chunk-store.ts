/**
 * Chunks that are on this node already, shared by all its machines. The files are packs as registries hold them,
 * or parts of packs at their own offsets; a small database knows where each chunk lies. Everything here is a copy
 * of something: what is damaged is forgotten and fetched again, and whatever is read is checked by its reader.
 *
 *   <directory>/store.db            which chunk lies where, what is pinned (SQLite, write-ahead log)
 *   <directory>/packs/ab/ab…        complete packs, named by their sha256
 *   <directory>/packs/ab/ab….part   packs of which only some chunks are here; holes elsewhere
 *   <directory>/tmp/                being written
 *
 * Several processes may use one store. The size is bounded: the least recently used packs go first, and a pack
 * that a machine or an operation under way has pinned never goes.
 */
import { randomUUID } from "node:crypto";
import { mkdir, open, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault, getErrorMessage, silentLogger, type Logger, ignoreMissing } from "@cocoon/core";
import { assertDigest } from "../digest.ts";
import { removeDatabase, StoreDatabase } from "./store-database.ts";
import type { ChunkLocator, StoredChunk } from "./worker-protocol.ts";

export interface ChunkStoreOptions {
  readonly directory: string;
  /** Bytes of packs to keep; pinned packs may exceed it. */
  readonly limitBytes: number;
  readonly log?: Logger;
}

/** A chunk inside a pack, as the index of a snapshot lists it. */
export interface PackedChunk extends StoredChunk {
  /** Id of the chunk that a delta stands on. */
  readonly baseId?: string;
}

interface NewPack {
  readonly digest: string;
  readonly chunks: readonly PackedChunk[];
  /** Writes the content; called once. */
  readonly write: (file: PackFile) => Promise<void>;
  /** Only the listed chunks are written, at their offsets. */
  readonly partial?: boolean;
}

interface PackFile {
  readonly path: string;
  write(bytes: Uint8Array, offset: number): Promise<void>;
}

export interface Hold extends Disposable {
  add(digests: Iterable<string>): void;
}

export interface StoreStats {
  readonly packs: number;
  readonly chunks: number;
  readonly bytes: number;
  readonly pinnedBytes: number;
  readonly limitBytes: number;
}

/** Ids looked up before other work gets a turn. */
const lookUpSlice = 2048;
const abandonedMs = 60 * 60_000;

export class ChunkStore implements Disposable {
  readonly #directory: string;
  readonly #limitBytes: number;
  readonly #log: Logger;
  readonly #database: StoreDatabase;

  private constructor(options: ChunkStoreOptions, database: StoreDatabase) {
    this.#directory = options.directory;
    this.#limitBytes = options.limitBytes;
    this.#log = options.log ?? silentLogger;
    this.#database = database;
  }

  /** Opens the store, or makes an empty one. One that is damaged beyond use is emptied: it holds only copies. */
  static async open(options: ChunkStoreOptions): Promise<ChunkStore> {
    const { directory, log = silentLogger } = options;
    await mkdir(join(directory, "tmp"), { recursive: true, mode: 0o700 });
    const path = join(directory, "store.db");
    const onDamage = (error: unknown): void =>
      log.warn({ path, err: error }, "chunk store is damaged and starts empty");
    let database: StoreDatabase;
    try {
      database = new StoreDatabase(path, onDamage);
    } catch (error) {
      onDamage(error);
      await rm(join(directory, "packs"), { recursive: true, force: true });
      removeDatabase(path);
      database = new StoreDatabase(path, onDamage);
    }
    const store = new ChunkStore(options, database);
    await store.#removeAbandoned();
    return store;
  }

  [Symbol.dispose](): void {
    this.#database.close();
  }

  /** Where the chunks lie that are here. A delta whose base is not here is not here. */
  async find(ids: Iterable<string>): Promise<Map<string, ChunkLocator>> {
    const found = new Map<string, ChunkLocator>();
    let looked = 0;
    for (const id of ids) {
      const locator = this.#locate(id);
      if (locator) found.set(id, locator);
      looked += 1;
      if (looked % lookUpSlice === 0) await new Promise(setImmediate);
    }
    return found;
  }

  #locate(id: string): ChunkLocator | undefined {
    const row = this.#database.chunk(id);
    if (!row) return undefined;
    const { baseId, packName, ...chunk } = row;
    const locator = { id, ...chunk, path: this.#getPath(packName) };
    if (baseId === undefined) return locator;
    const base = this.#database.chunk(baseId);
    if (!base || base.baseId !== undefined) return undefined;
    const { baseId: _none, packName: basePack, ...rest } = base;
    return { ...locator, base: { id: baseId, ...rest, path: this.#getPath(basePack) } };
  }

  /** The file of a complete pack. */
  findPack(digest: string): string | undefined {
    const name = getHex(digest);
    return this.#database.hasPack(name) ? this.#getPath(name) : undefined;
  }

  /** Adds a pack or a part of one, then makes room if the bound is passed; returns its file. May be repeated. */
  async addPack(pack: NewPack): Promise<string> {
    const name = pack.partial ? `${getHex(pack.digest)}.part` : getHex(pack.digest);
    if (!pack.partial && this.#database.hasPack(name)) {
      // The file is here, but some of its chunks may have been known by another pack that is gone.
      this.#database.addPack({ name, bytes: 0, chunks: pack.chunks });
      return this.#getPath(name);
    }
    using _held = this.hold([pack.digest]);
    const path = this.#getPath(name);
    await mkdir(join(path, ".."), { recursive: true, mode: 0o700 });
    if (pack.partial) await this.#writePart(path, pack);
    else await this.#writeWhole(path, pack);
    const bytes = pack.partial
      ? pack.chunks.reduce((sum, each) => sum + each.length, 0)
      : (await stat(path)).size;
    this.#database.addPack({ name, bytes, chunks: pack.chunks });
    await this.makeRoom();
    return path;
  }

  /** Same offsets, same content: several writers of one part cannot disturb each other. */
  async #writePart(path: string, pack: NewPack): Promise<void> {
    const handle = await open(path, "a", 0o600); // make it, keep what is there
    await handle.close();
    await this.#fill(path, pack);
  }

  async #writeWhole(path: string, pack: NewPack): Promise<void> {
    const temporary = join(this.#directory, "tmp", randomUUID());
    try {
      await (await open(temporary, "wx", 0o600)).close();
      await this.#fill(temporary, pack);
      await rename(temporary, path);
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async #fill(path: string, pack: NewPack): Promise<void> {
    const handle = await open(path, "r+");
    try {
      await pack.write({
        path,
        write: async (bytes, offset) => {
          await handle.write(bytes, 0, bytes.length, offset);
        },
      });
    } finally {
      await handle.close();
    }
  }

  /** Keeps a small blob (a manifest, an index) beside the packs, with the same rules. */
  async addBlob(digest: string, bytes: Uint8Array): Promise<void> {
    await this.addPack({ digest, chunks: [], write: (file) => file.write(bytes, 0) });
  }

  /** A blob that is here and undamaged. */
  async tryReadBlob(digest: string): Promise<Buffer | undefined> {
    const path = this.findPack(digest);
    if (path === undefined) return undefined;
    try {
      const bytes = await readFile(path);
      assertDigest(bytes, digest, path);
      return bytes;
    } catch (error) {
      this.#log.warn({ path, error: getErrorMessage(error) }, "damaged blob in the chunk store");
      await this.#remove(getHex(digest));
      return undefined;
    }
  }

  /** Counts as used now: what was used last goes last. */
  touch(digests: Iterable<string>): void {
    this.#database.touch([...digests].flatMap((each) => [getHex(each), `${getHex(each)}.part`]));
  }

  /** Forgets chunks that turned out to be damaged, with the packs they lie in. */
  async forgetChunks(ids: Iterable<string>): Promise<void> {
    for (const name of this.#database.collectPacks(ids)) await this.#remove(name);
  }

  /** Forgets packs, so that they are fetched again. */
  async forgetPacks(digests: Iterable<string>): Promise<void> {
    for (const digest of digests)
      for (const name of [getHex(digest), `${getHex(digest)}.part`]) await this.#remove(name);
  }

  /**
   * Keeps packs for as long as the owner (a machine) needs them; replaces what the owner had pinned before. Holds
   * across restarts and power cuts. The packs need not be here yet.
   */
  pin(owner: string, digests: Iterable<string>): void {
    if (owner === "") throw new Fault("invalid", "a pin needs an owner");
    this.#database.pin(owner, [...digests].map(getHex));
  }

  /** Gives the owner's packs free. May be repeated. */
  unpin(owner: string): void {
    this.#database.unpin(owner);
  }

  /** Who has pinned something. */
  owners(): string[] {
    return this.#database.owners();
  }

  /** Keeps packs while an operation of this process runs; ends with the process at the latest. */
  hold(digests: Iterable<string>): Hold {
    const owner = this.#database.newHold();
    const add = (more: Iterable<string>): void => this.#database.hold(owner, [...more].map(getHex));
    add(digests);
    return { add, [Symbol.dispose]: () => this.#database.unpin(owner) };
  }

  /** Removes least recently used packs until the store is within its bound; pinned ones stay. */
  async makeRoom(): Promise<void> {
    for (const name of this.#database.evict(this.#limitBytes)) {
      await rm(this.#getPath(name), { force: true });
      this.#log.debug({ path: this.#getPath(name) }, "chunk pack evicted");
    }
  }

  stats(): StoreStats {
    return { ...this.#database.stats(), limitBytes: this.#limitBytes };
  }

  async #remove(name: string): Promise<void> {
    this.#database.removePack(name); // first: a crash then leaves an unknown file, not a row without a file
    await rm(this.#getPath(name), { force: true });
  }

  /** Files that a crash left behind: not in the database and not written recently. */
  async #removeAbandoned(): Promise<void> {
    const before = Date.now() - abandonedMs;
    for (const folder of ["tmp", "packs"]) {
      const root = join(this.#directory, folder);
      for (const entry of await tryReadTree(root)) {
        if (folder === "packs" && this.#database.hasPack(entry.name)) continue;
        const path = join(entry.parentPath, entry.name);
        const found = await ignoreMissing(stat(path));
        if (found && found.mtimeMs < before) await rm(path, { force: true });
      }
    }
  }

  #getPath(name: string): string {
    return join(this.#directory, "packs", name.slice(0, 2), name);
  }
}

async function tryReadTree(root: string): Promise<{ name: string; parentPath: string }[]> {
  const entries = await ignoreMissing(readdir(root, { recursive: true, withFileTypes: true }));
  return (entries ?? []).filter((each) => each.isFile());
}

function getHex(digest: string): string {
  const hex = /^sha256:([0-9a-f]{64})$/.exec(digest)?.[1];
  if (!hex) throw new Fault("invalid", `"${digest.slice(0, 100)}" does not name a pack`);
  return hex;
}
