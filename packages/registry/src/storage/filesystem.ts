/**
 * Objects as files below one directory. An object is written to `incoming/`, flushed, renamed to its name, and its
 * directory flushed; so a crash or a power cut at any point leaves the old object, the new one, or a temporary file in
 * `incoming/` that the next start removes.
 */
import { hash, randomBytes } from "node:crypto";
import { constants } from "node:fs";
import {
  mkdir,
  open,
  opendir,
  readdir,
  rename,
  rm,
  rmdir,
  stat,
  unlink,
  utimes,
  type FileHandle,
} from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import {
  Fault,
  findLockHolder,
  ignoreMissing,
  syncDirectory,
  systemCode,
  toFault,
  tryLockFile,
  type FileLock,
} from "@cocoon/core";
import { KeyedLock } from "../content/keyed-lock.ts";
import { DirectorySync } from "./directory-sync.ts";
import { openFileObject } from "./file-object.ts";
import { layout, type StorageKey } from "./layout.ts";
import { NameIndex } from "./name-index.ts";
import type { LocalFile, ObjectInfo, OpenObject, Storage, VersionedObject } from "./storage.ts";

const incoming = "incoming";
const hidden: ReadonlySet<string> = new Set([incoming, "uploads", "lock", "admin-token"]);

export async function openFilesystemStorage(directory: string): Promise<Storage> {
  const root = resolve(directory);
  let lock: FileLock;
  try {
    await mkdir(join(root, "uploads"), { recursive: true, mode: 0o700 });
    lock = lockDirectory(root);
    await rm(join(root, incoming), { recursive: true, force: true }); // what a crash left half written
    await mkdir(join(root, incoming), { mode: 0o700 });
    await syncDirectory(root);
  } catch (error) {
    throw toFault(error, `storage directory ${root} cannot be used`);
  }
  return new FilesystemStorage(root, lock);
}

/** One server per directory: two would not know of each other's leases. Throws `conflict` when another one runs. */
function lockDirectory(root: string): FileLock {
  const path = join(root, "lock");
  const lock = tryLockFile(path);
  if (lock) return lock;
  const holder = findLockHolder(path);
  throw new Fault(
    "conflict",
    `the directory is in use by process ${holder?.pid ?? "unknown"}; stop it first`,
  );
}

class FilesystemStorage implements Storage {
  readonly description: string;
  readonly isShared = false; // the lock on the directory sees to that
  readonly localUploadDirectory: string;
  readonly #root: string;
  readonly #lock: FileLock;
  readonly #directories = new DirectorySync();
  readonly #conditional = new KeyedLock<StorageKey>();
  readonly #names = new NameIndex(async (directory) => (await ignoreMissing(readdir(directory))) ?? []);

  constructor(root: string, lock: FileLock) {
    this.#root = root;
    this.#lock = lock;
    this.description = `directory ${root}`;
    this.localUploadDirectory = join(root, "uploads");
  }

  async get(key: StorageKey): Promise<Buffer | undefined> {
    await using object = await this.open(key);
    return await object?.readAll();
  }

  async stat(key: StorageKey): Promise<ObjectInfo | undefined> {
    const found = await ignoreMissing(stat(this.#path(key)));
    return found?.isFile() ? { key, sizeBytes: found.size, modifiedAtMs: found.mtimeMs } : undefined;
  }

  async open(key: StorageKey): Promise<OpenObject | undefined> {
    const file = await ignoreMissing(open(this.#path(key), constants.O_RDONLY));
    return file && openFileObject(file);
  }

  async put(key: StorageKey, content: Uint8Array): Promise<void> {
    const path = this.#path(key);
    // An empty object cannot be half written: its name is all there is to it.
    if (content.length === 0) await this.#inDirectoryOf(path, () => createEmpty(path));
    else await this.#putBytes(path, content);
    await this.#directories.sync(dirname(path));
    this.#names.added(dirname(path), basename(path));
  }

  putIf(key: StorageKey, content: Uint8Array, version: string | undefined): Promise<string | undefined> {
    return this.#conditional.run(key, async () => {
      if ((await this.getVersioned(key))?.version !== version) return undefined;
      await this.put(key, content);
      return (await this.getVersioned(key))?.version;
    });
  }

  async getVersioned(key: StorageKey): Promise<VersionedObject | undefined> {
    const [content, info] = [await this.get(key), await this.stat(key)];
    return content && info && { content, version: hash("sha256", content), modifiedAtMs: info.modifiedAtMs };
  }

  async #putBytes(path: string, content: Uint8Array): Promise<void> {
    const temporary = join(this.#root, incoming, randomBytes(12).toString("hex"));
    try {
      const file = await open(temporary, "wx", 0o640);
      try {
        await file.writeFile(content);
        await file.datasync();
      } finally {
        await file.close();
      }
      await this.#inDirectoryOf(path, () => rename(temporary, path));
    } catch (error) {
      await rm(temporary, { force: true });
      throw error;
    }
  }

  async putFile(key: StorageKey, { path: source, sizeBytes }: LocalFile): Promise<void> {
    const path = this.#path(key);
    const file = await open(source, "r");
    try {
      const { size } = await file.stat();
      if (size !== sizeBytes) throw new Fault("internal", `${source} has ${size} bytes, not ${sizeBytes}`);
      await file.datasync();
    } finally {
      await file.close();
    }
    await this.#inDirectoryOf(path, () => rename(source, path));
    await this.#directories.sync(dirname(path));
    this.#names.added(dirname(path), basename(path));
  }

  async touch(key: StorageKey): Promise<boolean> {
    const now = new Date();
    const touched = await ignoreMissing(utimes(this.#path(key), now, now).then(() => true));
    return touched ?? false;
  }

  async delete(key: StorageKey): Promise<boolean> {
    const path = this.#path(key);
    const removed = await ignoreMissing(unlink(path).then(() => true));
    if (removed) {
      this.#names.removed(dirname(path), basename(path));
      await ignoreMissing(this.#directories.sync(dirname(path)));
      await this.#removeIfEmpty(dirname(path));
    }
    return removed ?? false;
  }

  /** Directories of deleted repositories must not pile up; a writer creates them again when needed. */
  async #removeIfEmpty(directory: string): Promise<void> {
    if (dirname(directory) === this.#root) return;
    try {
      await rmdir(directory);
    } catch (error) {
      if (["ENOTEMPTY", "ENOENT", "EEXIST"].includes(systemCode(error) ?? "")) return;
      throw error;
    }
    await this.#removeIfEmpty(dirname(directory));
  }

  async *list(prefix: string): AsyncIterable<ObjectInfo> {
    const directory = await ignoreMissing(opendir(join(this.#root, prefix)));
    if (directory === undefined) return;
    for await (const entry of directory) {
      if (prefix === "" && hidden.has(entry.name)) continue;
      const key = `${prefix}${entry.name}` as StorageKey;
      if (entry.isDirectory()) yield* this.list(`${key}/`);
      else {
        const info = await this.stat(key);
        if (info) yield info; // it may have gone since the directory was read
      }
    }
  }

  async *listNames(prefix: string): AsyncIterable<string> {
    yield* (await ignoreMissing(readdir(join(this.#root, prefix)))) ?? [];
  }

  listPage(prefix: string, page: { readonly after: string; readonly limit: number }): Promise<string[]> {
    return this.#names.page(join(this.#root, prefix.slice(0, -1)), page);
  }

  async now(): Promise<number> {
    await this.put(layout.clock, new Uint8Array());
    const info = await this.stat(layout.clock);
    if (!info) throw new Fault("unavailable", `${this.description}: the clock file vanished`);
    return info.modifiedAtMs;
  }

  async sweepUnfinished(olderThanMs: number): Promise<number> {
    const directory = join(this.#root, incoming);
    const nowMs = await this.now();
    let removed = 0;
    for (const name of await readdir(directory)) {
      const path = join(directory, name);
      const found = await ignoreMissing(stat(path));
      if (!found || nowMs - found.mtimeMs < olderThanMs) continue;
      await rm(path, { force: true });
      removed += 1;
    }
    return removed;
  }

  async check(): Promise<void> {
    const content = randomBytes(16);
    const key = layout.probe(content.toString("hex"));
    try {
      await this.put(key, content);
      const back = await this.get(key);
      if (!back?.equals(content)) throw new Fault("unavailable", "a probe was not read back as written");
    } catch (error) {
      throw toFault(error, this.description);
    } finally {
      await this.delete(key);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#lock[Symbol.asyncDispose]();
  }

  #path(key: StorageKey): string {
    return join(this.#root, key);
  }

  /** Runs the action; when the directory of the path is missing, makes it, durably, and tries again. */
  async #inDirectoryOf(path: string, action: () => Promise<void>): Promise<void> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await action();
        return;
      } catch (error) {
        if (systemCode(error) !== "ENOENT" || attempt === 3) throw error;
      }
      await this.#ensureDirectory(dirname(path));
    }
  }

  async #ensureDirectory(directory: string): Promise<void> {
    await mkdir(directory, { recursive: true });
    for (let parent = dirname(directory); parent.startsWith(this.#root); parent = dirname(parent))
      await this.#directories.sync(parent);
  }
}

async function createEmpty(path: string): Promise<void> {
  const file: FileHandle = await open(path, "w", 0o640);
  await file.close();
}
