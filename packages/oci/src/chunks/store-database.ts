/**
 * The database of the chunk store. Every method is one transaction; another process may come in between two. What it
 * holds is only where copies lie: when it turns out to be damaged in the middle of the work, it starts empty.
 */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { Fault, isAlive, tryIdentify } from "@cocoon/core";
import { encodings } from "./codec.ts";
import type { PackedChunk } from "./chunk-store.ts";
import type { StoredChunk } from "./worker-protocol.ts";

const schemaVersion = 1;
const schema = `
  CREATE TABLE IF NOT EXISTS pack (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    bytes INTEGER NOT NULL,
    used_at INTEGER NOT NULL
  );
  CREATE TABLE IF NOT EXISTS chunk (
    id BLOB PRIMARY KEY,
    pack INTEGER NOT NULL REFERENCES pack (number) ON DELETE CASCADE,
    "offset" INTEGER NOT NULL,
    length INTEGER NOT NULL,
    raw_length INTEGER NOT NULL,
    encoding INTEGER NOT NULL,
    base BLOB
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS chunk_by_pack ON chunk (pack);
  CREATE TABLE IF NOT EXISTS pin (
    owner TEXT NOT NULL,
    hex TEXT NOT NULL,
    pid INTEGER,
    started TEXT,
    PRIMARY KEY (owner, hex)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS pin_by_pack ON pin (hex);
`;

export interface ChunkRow extends Omit<StoredChunk, "id"> {
  readonly packName: string;
  readonly baseId?: string;
}

/** A pack and its part are pinned together. */
const pinned = "EXISTS (SELECT 1 FROM pin WHERE pin.hex = substr(pack.name, 1, 64))";

/** Names become paths. */
const packName = /^[0-9a-f]{64}(?:\.part)?$/;

interface Opened {
  readonly database: DatabaseSync;
  readonly statements: ReturnType<typeof prepare>;
}

export class StoreDatabase {
  readonly #path: string;
  readonly #onDamage: (error: unknown) => void;
  #opened: Opened;

  /** Throws when the file is damaged or of another version. `onDamage` gets damage that shows later. */
  constructor(path: string, onDamage: (error: unknown) => void) {
    this.#path = path;
    this.#onDamage = onDamage;
    this.#opened = openDatabase(path);
  }

  close(): void {
    const { database } = this.#opened;
    if (database.isOpen) database.close();
  }

  /** Does it again on an empty database when this one cannot be worked with. */
  #run<T>(work: (statements: Opened["statements"]) => T): T {
    try {
      return work(this.#opened.statements);
    } catch (error) {
      if (!isDamage(error)) throw error;
      this.#onDamage(error);
      this.close();
      removeDatabase(this.#path);
      this.#opened = openDatabase(this.#path);
      return work(this.#opened.statements);
    }
  }

  chunk(id: string): ChunkRow | undefined {
    const row = this.#run((statements) => statements.chunk.get(Buffer.from(id, "hex")));
    const encoding = encodings[Number(row?.["encoding"])];
    const name = String(row?.["name"]);
    if (!row || !encoding || !packName.test(name)) return undefined;
    const base = row["base"];
    return {
      packName: name,
      offset: Number(row["offset"]),
      length: Number(row["length"]),
      rawLength: Number(row["raw_length"]),
      encoding,
      ...(base instanceof Uint8Array ? { baseId: Buffer.from(base).toString("hex") } : {}),
    };
  }

  hasPack(name: string): boolean {
    return this.#run((statements) => statements.pack.get(name)) !== undefined;
  }

  addPack(pack: {
    readonly name: string;
    readonly bytes: number;
    readonly chunks: readonly PackedChunk[];
  }): void {
    this.#atomically((statements) => {
      statements.addPack.run(pack.name, pack.bytes, Date.now());
      const number = Number(statements.pack.get(pack.name)?.["number"]);
      for (const chunk of pack.chunks)
        statements.addChunk.run(
          Buffer.from(chunk.id, "hex"),
          number,
          chunk.offset,
          chunk.length,
          chunk.rawLength,
          encodings.indexOf(chunk.encoding),
          chunk.baseId === undefined ? null : Buffer.from(chunk.baseId, "hex"),
        );
    });
  }

  removePack(name: string): void {
    this.#run((statements) => statements.removePack.run(name));
  }

  collectPacks(ids: Iterable<string>): Set<string> {
    const names = new Set<string>();
    for (const id of ids) {
      const row = this.chunk(id);
      if (row) names.add(row.packName);
    }
    return names;
  }

  touch(names: readonly string[]): void {
    this.#atomically((statements) => {
      for (const name of names) statements.touch.run(Date.now(), name);
    });
  }

  pin(owner: string, hexes: readonly string[]): void {
    this.#atomically((statements) => {
      statements.unpin.run(owner);
      for (const hex of hexes) statements.pin.run(owner, hex, null, null);
    });
  }

  /** An owner whose pins end with this process. */
  newHold(): string {
    return `process ${process.pid} ${randomUUID()}`;
  }

  hold(owner: string, hexes: readonly string[]): void {
    const identity = tryIdentify(process.pid);
    this.#atomically((statements) => {
      for (const hex of hexes)
        statements.pin.run(owner, hex, process.pid, identity ? JSON.stringify(identity) : null);
    });
  }

  unpin(owner: string): void {
    this.#run((statements) => statements.unpin.run(owner));
  }

  owners(): string[] {
    return this.#run((statements) => statements.owners.all()).map((row) => String(row["owner"]));
  }

  /** Forgets unpinned packs, the least recently used first, until the rest fits; returns their names. */
  evict(limitBytes: number): string[] {
    if (this.#run(totalBytes) <= limitBytes) return [];
    return this.#atomically((statements) => {
      endDeadHolds(statements);
      const names: string[] = [];
      let total = totalBytes(statements);
      for (const row of statements.evictable.all()) {
        if (total <= limitBytes) break;
        const name = String(row["name"]);
        statements.removePack.run(name);
        total -= Number(row["bytes"]);
        if (packName.test(name)) names.push(name);
      }
      return names;
    });
  }

  stats(): { packs: number; chunks: number; bytes: number; pinnedBytes: number } {
    const row = this.#run((statements) => statements.stats.get());
    return {
      packs: Number(row?.["packs"]),
      chunks: Number(row?.["chunks"]),
      bytes: Number(row?.["bytes"]),
      pinnedBytes: Number(row?.["pinned"]),
    };
  }

  #atomically<T>(work: (statements: Opened["statements"]) => T): T {
    return this.#run((statements) => {
      const { database } = this.#opened;
      database.exec("BEGIN IMMEDIATE");
      try {
        const result = work(statements);
        database.exec("COMMIT");
        return result;
      } catch (error) {
        if (database.isTransaction) database.exec("ROLLBACK");
        throw error;
      }
    });
  }
}

function openDatabase(path: string): Opened {
  const database = new DatabaseSync(path, { timeout: 10_000 });
  try {
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON");
    // Not the whole integrity, which takes seconds in a large store: what this does not see shows when it is used.
    const [verdict] = database.prepare("PRAGMA quick_check(1)").all();
    if (verdict?.["quick_check"] !== "ok") throw new Fault("invalid", "chunk store database is damaged");
    const version = Number(database.prepare("PRAGMA user_version").get()?.["user_version"]);
    if (version !== 0 && version !== schemaVersion)
      throw new Fault("invalid", `chunk store database has version ${version}, not ${schemaVersion}`);
    database.exec(`BEGIN IMMEDIATE; ${schema} PRAGMA user_version = ${schemaVersion}; COMMIT`);
    return { database, statements: prepare(database) };
  } catch (error) {
    database.close();
    throw error;
  }
}

export function removeDatabase(path: string): void {
  for (const suffix of ["", "-wal", "-shm"]) rmSync(`${path}${suffix}`, { force: true });
}

/** SQLite's primary codes for a schema, rows or indexes that do not belong together: our statements cannot cause them. */
const damage: ReadonlySet<number> = new Set([1, 11, 19, 20, 26]);

function isDamage(error: unknown): boolean {
  if (!(error instanceof Error) || !("errcode" in error)) return false;
  return damage.has(Number(error.errcode) & 0xff);
}

function totalBytes(statements: Opened["statements"]): number {
  return Number(statements.total.get()?.["bytes"]);
}

function endDeadHolds(statements: Opened["statements"]): void {
  for (const row of statements.holds.all()) {
    const identity = tryReadIdentity(String(row["started"]));
    if (!identity || !isAlive(identity)) statements.unpin.run(String(row["owner"]));
  }
}

function tryReadIdentity(text: string): Parameters<typeof isAlive>[0] | undefined {
  try {
    return JSON.parse(text) as Parameters<typeof isAlive>[0];
  } catch {
    return undefined;
  }
}

// oxlint-disable-next-line typescript/explicit-module-boundary-types -- the record of statements is its own type
function prepare(database: DatabaseSync) {
  const statement = (sql: string): StatementSync => database.prepare(sql);
  return {
    chunk: statement(
      'SELECT pack.name, "offset", length, raw_length, encoding, base FROM chunk JOIN pack ON pack.number = chunk.pack WHERE id = ?',
    ),
    pack: statement("SELECT number FROM pack WHERE name = ?"),
    // A part that grows adds its new bytes to what it had.
    addPack: statement(
      "INSERT INTO pack (name, bytes, used_at) VALUES (?, ?, ?) ON CONFLICT (name) DO UPDATE SET bytes = bytes + excluded.bytes, used_at = excluded.used_at",
    ),
    // A whole chunk is worth more than a delta, which needs its base as well.
    addChunk: statement(
      'INSERT INTO chunk (id, pack, "offset", length, raw_length, encoding, base) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET pack = excluded.pack, "offset" = excluded."offset", length = excluded.length, raw_length = excluded.raw_length, encoding = excluded.encoding, base = excluded.base WHERE chunk.base IS NOT NULL AND excluded.base IS NULL',
    ),
    removePack: statement("DELETE FROM pack WHERE name = ?"),
    touch: statement("UPDATE pack SET used_at = ? WHERE name = ?"),
    pin: statement("INSERT OR REPLACE INTO pin (owner, hex, pid, started) VALUES (?, ?, ?, ?)"),
    unpin: statement("DELETE FROM pin WHERE owner = ?"),
    owners: statement("SELECT DISTINCT owner FROM pin WHERE pid IS NULL ORDER BY owner"),
    holds: statement("SELECT DISTINCT owner, started FROM pin WHERE pid IS NOT NULL AND started IS NOT NULL"),
    evictable: statement(`SELECT name, bytes FROM pack WHERE NOT ${pinned} ORDER BY used_at, number`),
    total: statement("SELECT coalesce(sum(bytes), 0) AS bytes FROM pack"),
    stats: statement(
      `SELECT count(*) AS packs, coalesce(sum(bytes), 0) AS bytes, coalesce(sum(CASE WHEN ${pinned} THEN bytes END), 0) AS pinned, (SELECT count(*) FROM chunk) AS chunks FROM pack`,
    ),
  };
}
