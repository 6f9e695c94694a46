/**
 * Snapshots on disk. One is made in a work directory that its maker holds by a lock, and becomes visible, whole and
 * for ever unchanged, by one rename.
 */
import { mkdir, readdir, rename, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  lockFile,
  getErrorMessage,
  pathExists,
  syncDirectory,
  systemCode,
  tryLockFile,
  tryReadFile,
  writeFileAtomically,
  type Abortable,
  type FileLock,
} from "@cocoon/core";
import * as z from "zod";
import { readSnapshotDescription, type SnapshotDescription } from "../snapshot/snapshot-description.ts";
import type { Snapshot } from "@cocoon/vm";
import { assertSnapshotName, findByRef, idPattern, newId, snapshotNotFound } from "@cocoon/vm/engine";
import type { VmStore } from "./vm-store.ts";
import { snapshotDescriptionFile, snapshotRecordFile, type StoreLayout } from "./layout.ts";

const recordSchema = z.object({
  version: z.literal(1),
  id: z.string().regex(idPattern),
  name: z.string(),
  description: z.string().exactOptional(),
  createdAt: z.string(),
  vmId: z.string().exactOptional(),
});

export type SnapshotRecord = Readonly<z.infer<typeof recordSchema>>;

export interface StoredSnapshot {
  readonly id: string;
  readonly name: string;
  readonly directory: string;
  readonly record: SnapshotRecord;
  readonly description: SnapshotDescription;
}

/** A snapshot in the making; disposing it removes what was not published. */
export interface SnapshotWork extends AsyncDisposable {
  readonly id: string;
  readonly directory: string;
  /** Claims a name that was not known at the beginning. `alreadyExists` when it is taken. */
  claimName(name: string, options: Abortable): Promise<void>;
  /** Makes it visible. The directory must hold every file that the description lists. */
  publish(
    record: Omit<SnapshotRecord, "version" | "id">,
    description: SnapshotDescription,
  ): Promise<StoredSnapshot>;
}

export class SnapshotStore {
  readonly #layout: StoreLayout;
  readonly #store: Pick<VmStore, "assertPresent">;
  readonly #warn: (path: string, why: string) => void;

  constructor(store: Pick<VmStore, "assertPresent" | "layout">, warn: (path: string, why: string) => void) {
    this.#layout = store.layout;
    this.#store = store;
    this.#warn = warn;
  }

  /** Starts a snapshot and claims its name, unless that is empty. `alreadyExists` when it is taken. */
  async begin(name: string, options: Abortable): Promise<SnapshotWork> {
    if (name !== "") assertSnapshotName(name);
    const id = newId();
    const directory = join(this.#layout.work, id);
    await mkdir(directory, { mode: 0o700 });
    const lock = await lockFile(this.#workLock(id), options);
    let published = false;
    let claimed = name;
    const discard = async () => {
      if (!published) await this.#discardWork(id, claimed);
      await rm(this.#workLock(id), { force: true });
      lock[Symbol.dispose]();
    };
    try {
      await this.#claimName(name, id, options);
    } catch (error) {
      await discard();
      throw error;
    }
    return {
      id,
      directory,
      claimName: async (later, how) => {
        if (later !== "") assertSnapshotName(later);
        await this.#claimName(later, id, how);
        claimed = later;
      },
      publish: async (record, description) => {
        const stored = await this.#publish({ version: 1, id, ...record }, description);
        published = true;
        return stored;
      },
      [Symbol.asyncDispose]: discard,
    };
  }

  /** All of them, oldest first. One that cannot be read is left out, with a warning. */
  async list(): Promise<readonly StoredSnapshot[]> {
    const found: StoredSnapshot[] = [];
    for (const id of await readdir(this.#layout.snapshots)) {
      const snapshot = await this.#tryLoad(id).catch((error: unknown) => {
        this.#warn(join(this.#layout.snapshots, id), getErrorMessage(error));
        return undefined;
      });
      if (snapshot) found.push(snapshot);
    }
    await this.#store.assertPresent();
    return found.sort(
      (one, other) =>
        one.record.createdAt.localeCompare(other.record.createdAt) || one.id.localeCompare(other.id),
    );
  }

  async find(ref: string): Promise<StoredSnapshot> {
    const exact = idPattern.test(ref) ? await this.#tryLoad(ref) : undefined;
    return exact ?? findByRef(ref, await this.list(), snapshotNotFound);
  }

  /** Those of the ids that are snapshots. */
  async existing(ids: readonly string[]): Promise<readonly string[]> {
    const found = await Promise.all(ids.map((id) => pathExists(join(this.#layout.snapshots, id))));
    return ids.filter((_id, index) => found[index]);
  }

  /** Notes that it was used now; garbage collection spares what was. */
  async touch({ directory }: StoredSnapshot, now: Date): Promise<void> {
    await utimes(join(directory, snapshotRecordFile), now, now);
  }

  /** Clones are not affected: they have links of their own. */
  async remove(id: string, options: Abortable): Promise<void> {
    const snapshot = await this.find(id);
    const trash = join(this.#layout.trash, `${snapshot.id}-${newId()}`);
    try {
      await rename(snapshot.directory, trash);
    } catch (error) {
      if (systemCode(error) === "ENOENT") throw snapshotNotFound(id);
      throw error;
    }
    await this.#releaseName(snapshot.name, snapshot.id, options);
    await rm(trash, { recursive: true, force: true });
  }

  /** Removes the work and the names of makers that died. */
  async sweep(): Promise<readonly string[]> {
    const names = await readdir(this.#layout.work);
    const ids = new Set(names.map((name) => name.replace(/\.lock$/, "")));
    const removed: string[] = [];
    for (const id of ids) {
      using lock = tryLockFile(this.#workLock(id));
      if (!lock) continue;
      await this.#discardWork(id, undefined);
      await rm(this.#workLock(id), { force: true });
      removed.push(id);
    }
    return [...removed, ...(await this.#sweepNames())];
  }

  async #sweepNames(): Promise<readonly string[]> {
    using _lock = await this.#lockNames({ signal: AbortSignal.timeout(10_000) });
    const removed: string[] = [];
    for (const name of await readdir(this.#layout.snapshotNames)) {
      const path = join(this.#layout.snapshotNames, name);
      if (await this.#isThere((await tryReadFile(path))?.trim() ?? "")) continue;
      await rm(path, { force: true });
      removed.push(name);
    }
    return removed;
  }

  #workLock(id: string): string {
    return join(this.#layout.work, `${id}.lock`);
  }

  async #publish(record: SnapshotRecord, description: SnapshotDescription): Promise<StoredSnapshot> {
    const work = join(this.#layout.work, record.id);
    const directory = join(this.#layout.snapshots, record.id);
    await writeJson(join(work, snapshotDescriptionFile), description);
    await writeJson(join(work, snapshotRecordFile), record);
    await rename(work, directory);
    await syncDirectory(this.#layout.snapshots);
    return { id: record.id, name: record.name, directory, record, description };
  }

  async #discardWork(id: string, name: string | undefined): Promise<void> {
    await rm(join(this.#layout.work, id), { recursive: true, force: true });
    const { signal } = new AbortController();
    if (name !== undefined) return this.#releaseName(name, id, { signal });
  }

  async #claimName(name: string, id: string, options: Abortable): Promise<void> {
    if (name === "") return;
    using _lock = await this.#lockNames(options);
    const path = this.#nameFile(name);
    const holder = (await tryReadFile(path))?.trim();
    if (holder !== undefined && holder !== id && (await this.#isThere(holder)))
      throw new Fault(
        "alreadyExists",
        `snapshot name "${name}" already exists (already in use by ${holder})`,
      );
    await writeFileAtomically(path, id, { mode: 0o600, sync: false });
  }

  /**
   * A name whose holder is neither a snapshot nor in the making was left by a process that died; one that holds no id, by
   * a power cut.
   */
  async #isThere(id: string): Promise<boolean> {
    if (!idPattern.test(id)) return false;
    return (
      (await pathExists(join(this.#layout.snapshots, id))) || (await pathExists(join(this.#layout.work, id)))
    );
  }

  async #releaseName(name: string, id: string, options: Abortable): Promise<void> {
    if (name === "") return;
    using _lock = await this.#lockNames(options);
    const path = this.#nameFile(name);
    const holder = (await tryReadFile(path))?.trim() ?? "";
    if (holder === id || !(await this.#isThere(holder))) await rm(path, { force: true });
  }

  #nameFile(name: string): string {
    return join(this.#layout.snapshotNames, encodeURIComponent(name));
  }

  #lockNames(options: Abortable): Promise<FileLock> {
    return lockFile(join(this.#layout.root, "snapshot-names.lock"), options);
  }

  async #tryLoad(id: string): Promise<StoredSnapshot | undefined> {
    const directory = join(this.#layout.snapshots, id);
    const [recordText, descriptionText] = await Promise.all([
      tryReadFile(join(directory, snapshotRecordFile)),
      tryReadFile(join(directory, snapshotDescriptionFile)),
    ]);
    if (recordText === undefined || descriptionText === undefined) return undefined;
    const record = recordSchema.parse(JSON.parse(recordText));
    return {
      id,
      name: record.name,
      directory,
      record,
      description: readSnapshotDescription(descriptionText),
    };
  }
}

async function writeJson(path: string, value: unknown): Promise<void> {
  await writeFileAtomically(path, `${JSON.stringify(value, null, 2)}\n`, { mode: 0o600 });
}

/** The snapshot as the port shows it. */
export async function toSnapshot({ record, description, directory }: StoredSnapshot): Promise<Snapshot> {
  const blocks = await Promise.all(
    Object.keys(description.files).map(async (name) => (await stat(join(directory, name))).blocks),
  );
  const { mtime } = await stat(join(directory, snapshotRecordFile));
  return {
    id: record.id,
    name: record.name,
    ...(record.description === undefined ? {} : { description: record.description }),
    hypervisor: "qemu",
    config: description.config,
    nics: description.nics.length,
    imageBlobIds: description.imageBlobIds,
    createdAt: record.createdAt,
    lastUsedAt: mtime.toISOString(),
    ...(record.vmId === undefined ? {} : { vmId: record.vmId }),
    sizeBytes: blocks.reduce((sum, count) => sum + count * 512, 0),
  };
}
