/**
 * The records of all VMs on disk, safe against crashes and against other processes: one directory per VM, one lock
 * per VM, atomic files. It knows nothing about hypervisors; what a record means is decided elsewhere.
 */
import { mkdir, readFile, readdir, rename, rm, link, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  lockFile,
  getErrorMessage,
  pathExists,
  systemCode,
  toFault,
  tryLockFile,
  tryReadFile,
  writeFileAtomically,
  type Abortable,
  type FileLock,
} from "@cocoon/core";
import { findByRef, idPattern, newId, vmNotFound } from "@cocoon/vm/engine";
import { assertMarker, openMarker } from "./store-marker.ts";
import { storeLayout, vmFile, type StoreLayout } from "./layout.ts";
import { vmRecordSchema, type VmRecord } from "./vm-record.ts";

/** A VM as it is found on disk. */
export type StoredVm =
  | { readonly kind: "record"; readonly id: string; readonly name: string; readonly record: VmRecord }
  /**
   * Its state file makes no sense: the disk or a person did that, for a crash cannot. Nothing is done to it but removal
   * by force. The state before the last change lies beside it, to compare; taking that one blindly could start the
   * VM from an outdated disk.
   */
  | { readonly kind: "damaged"; readonly id: string; readonly name: string; readonly why: string };

const maxRecordBytes = 1024 * 1024;

export class VmStore {
  readonly layout: StoreLayout;
  readonly #storeId: string;

  private constructor(layout: StoreLayout, storeId: string) {
    this.layout = layout;
    this.#storeId = storeId;
  }

  static async open(rootDirectory: string): Promise<VmStore> {
    const layout = storeLayout(rootDirectory);
    const { root, openLock: _open, ...directories } = layout;
    try {
      for (const directory of Object.values(directories))
        await mkdir(directory, { recursive: true, mode: 0o700 });
      return new VmStore(layout, await openMarker(root, layout.vms));
    } catch (error) {
      throw toFault(error, `cannot open the VM store in ${rootDirectory}`);
    }
  }

  /** `unavailable` when the store has vanished: then what is missing was not removed. */
  async assertPresent(): Promise<void> {
    await assertMarker(this.layout.root, this.#storeId);
  }

  getDirectory(id: string): string {
    return join(this.layout.vms, id);
  }

  /** All VMs, oldest first; those without a creation time first of all. */
  async list(): Promise<readonly StoredVm[]> {
    const ids = await this.#ids();
    const found = await Promise.all(ids.map((id) => this.#tryLoad(id)));
    await this.assertPresent();
    const createdAt = (vm: StoredVm) => (vm.kind === "record" ? vm.record.createdAt : "");
    return found
      .filter((vm) => vm !== undefined)
      .sort((one, other) => createdAt(one).localeCompare(createdAt(other)) || one.id.localeCompare(other.id));
  }

  /** `notFound` for an unknown one, `conflict` for an ambiguous prefix. */
  async find(ref: string): Promise<StoredVm> {
    return (await this.tryFind(ref)) ?? findByRef(ref, await this.list(), vmNotFound);
  }

  /** The VM with that very id, if there is one. */
  async tryFind(id: string): Promise<StoredVm | undefined> {
    return idPattern.test(id) ? this.#tryLoad(id) : undefined;
  }

  /** The record as it is now; `notFound` when the VM is gone, `internal` when the record is damaged. */
  async read(id: string): Promise<VmRecord> {
    const vm = await this.#tryLoad(id);
    if (!vm) throw vmNotFound(id);
    if (vm.kind === "damaged")
      throw new Fault("internal", `the state file of VM ${vm.name} is damaged: ${vm.why}`);
    return vm.record;
  }

  /** Replaces the record; the caller holds the VM's lock. Unsynced it survives our crash, but not a power cut. */
  async write(record: VmRecord, { sync = true } = {}): Promise<void> {
    const directory = this.getDirectory(record.id);
    const path = join(directory, vmFile.record);
    await keepPrevious(path, join(directory, vmFile.previousRecord));
    await writeFileAtomically(path, `${JSON.stringify(record, null, 2)}\n`, { mode: 0o600, sync });
    await this.announce(record.id);
  }

  /** Tells watchers, in this process and others, to look at that VM again. */
  async announce(id: string): Promise<void> {
    await writeFile(join(this.layout.changes, id), new Date().toISOString(), { mode: 0o600 });
  }

  /** Makes the directory of a new VM and locks it. Until `claimName` and `write` it has neither name nor record. */
  async create(
    options: Abortable,
  ): Promise<{ readonly id: string; readonly directory: string; readonly lock: FileLock }> {
    const id = newId();
    const directory = this.getDirectory(id);
    await mkdir(directory, { mode: 0o700 });
    return { id, directory, lock: await this.lock(id, options) };
  }

  /** Waits for the lock of that VM. `notFound` when it is gone. */
  async lock(id: string, options: Abortable): Promise<FileLock> {
    try {
      return await lockFile(join(this.getDirectory(id), vmFile.lock), options);
    } catch (error) {
      if (systemCode(error) === "ENOENT") throw vmNotFound(id);
      throw error;
    }
  }

  /** The lock, unless another process holds it or the VM is gone. */
  tryLock(id: string): FileLock | undefined {
    try {
      return tryLockFile(join(this.getDirectory(id), vmFile.lock));
    } catch (error) {
      if (systemCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Gives the name to the VM, whose directory exists. `alreadyExists` when another VM has it. */
  async claimName(name: string, id: string, options: Abortable): Promise<void> {
    using _lock = await lockFile(join(this.layout.root, "names.lock"), options);
    const holder = await this.#findHolder(name);
    if (holder !== undefined && holder !== id)
      throw new Fault("alreadyExists", `vm name "${name}" already exists (id: ${holder})`);
    await writeFileAtomically(join(this.layout.names, name), id, { mode: 0o600, sync: false });
  }

  /** Removes everything of the VM; the caller holds its lock and has ended its process. The name is free afterwards. */
  async remove(id: string, options: Abortable): Promise<void> {
    const trash = join(this.layout.trash, `${id}-${newId()}`);
    const name = (await this.#tryLoad(id))?.name ?? (await this.#findClaimedName(id));
    await rename(this.getDirectory(id), trash);
    await this.#releaseName(name, id, options);
    await unlink(join(this.layout.changes, id)).catch(() => undefined); // never announced
    await rm(trash, { recursive: true, force: true });
  }

  /** Removes what dead processes left of removals. */
  async emptyTrash(): Promise<readonly string[]> {
    const left = await readdir(this.layout.trash);
    for (const name of left) await rm(join(this.layout.trash, name), { recursive: true, force: true });
    return left;
  }

  /** Directories that have no record: VMs in the making, or given up before they had one. */
  async withoutRecord(): Promise<readonly string[]> {
    const ids = (await readdir(this.layout.vms)).filter((id) => idPattern.test(id));
    const found = await Promise.all(ids.map((id) => this.#tryLoad(id)));
    return ids.filter((_id, index) => !found[index]);
  }

  /** Gives VMs their names back whose claim did not survive a power cut; of two with one name the older one has it. */
  async restoreNames(options: Abortable): Promise<void> {
    for (const { id, name } of await this.list()) {
      if (name === "" || (await this.#findHolder(name)) !== undefined) continue;
      await this.claimName(name, id, options);
    }
  }

  /** Removes names and change marks whose VM is gone, and what a process that died was about to write as a name. */
  async sweepNames(): Promise<readonly string[]> {
    const removed = await this.#sweepUnfinished();
    for (const name of await readdir(this.layout.names)) {
      if ((await this.#findHolder(name)) !== undefined) continue;
      await this.#releaseName(name, "", { signal: AbortSignal.timeout(10_000) });
      removed.push(name);
    }
    for (const id of await readdir(this.layout.changes))
      if (!(await pathExists(this.getDirectory(id))))
        await rm(join(this.layout.changes, id), { force: true });
    return removed;
  }

  /** Names are written under this lock: while it is held here, no other process has such a file. */
  async #sweepUnfinished(): Promise<string[]> {
    using _lock = await lockFile(join(this.layout.root, "names.lock"), {
      signal: AbortSignal.timeout(10_000),
    });
    const unfinished = (await readdir(this.layout.names)).filter((name) => name.startsWith("."));
    for (const name of unfinished) await rm(join(this.layout.names, name), { force: true });
    return unfinished;
  }

  async #releaseName(name: string, id: string, options: Abortable): Promise<void> {
    if (name === "") return;
    using _lock = await lockFile(join(this.layout.root, "names.lock"), options);
    const holder = await this.#findHolder(name);
    if (holder === undefined || holder === id) await rm(join(this.layout.names, name), { force: true });
  }

  /**
   * The VM that has the name. A name without an id, or with one that has no directory, was left by a power cut or by a
   * process that died: directories come before names.
   */
  async #findHolder(name: string): Promise<string | undefined> {
    const id = await tryReadFile(join(this.layout.names, name));
    if (id === undefined || !idPattern.test(id)) return undefined;
    return (await pathExists(this.getDirectory(id))) ? id : undefined;
  }

  async #ids(): Promise<readonly string[]> {
    try {
      return await readdir(this.layout.vms);
    } catch (error) {
      if (systemCode(error) === "ENOENT") await this.assertPresent();
      throw error;
    }
  }

  async #tryLoad(id: string): Promise<StoredVm | undefined> {
    const directory = this.getDirectory(id);
    const { record, why } = await tryParse(join(directory, vmFile.record));
    if (record) return { kind: "record", id, name: record.name, record };
    const damage =
      why ?? ((await pathExists(join(directory, vmFile.previousRecord))) ? "missing" : undefined);
    if (damage === undefined) {
      await this.assertPresent();
      return undefined;
    }
    return { kind: "damaged", id, name: await this.#findClaimedName(id), why: damage };
  }

  async #findClaimedName(id: string): Promise<string> {
    for (const name of await readdir(this.layout.names))
      if ((await tryReadFile(join(this.layout.names, name))) === id) return name;
    return "";
  }
}

interface Parsed {
  readonly record?: VmRecord;
  /** Absent when there is no such file. */
  readonly why?: string;
}

async function tryParse(path: string): Promise<Parsed> {
  try {
    const text = await readFile(path, "utf8");
    if (text.length > maxRecordBytes) return { why: "too large" };
    const parsed = vmRecordSchema.safeParse(JSON.parse(text));
    return parsed.success ? { record: parsed.data } : { why: getErrorMessage(parsed.error) };
  } catch (error) {
    if (systemCode(error) === "ENOENT" || systemCode(error) === "ENOTDIR") return {};
    if (error instanceof SyntaxError) return { why: "not JSON" };
    throw toFault(error, `cannot read ${path}`);
  }
}

/** Keeps the record of before under another name, by a link that replaces the former one in one step. */
async function keepPrevious(path: string, previous: string): Promise<void> {
  const temporary = `${previous}.${newId()}`;
  try {
    await link(path, temporary);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return; // the first record
    throw error;
  }
  await rename(temporary, previous);
}
