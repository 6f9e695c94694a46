/**
 * The records of all VMs on disk, safe against crashes and against other processes: one directory per VM, one lock
 * per VM, atomic files. It knows nothing about hypervisors; what a record means is decided elsewhere.
 */
import { mkdir, open, readFile, readdir, rename, rm, link, unlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Fault, messageOf, systemCode, toFault, writeFileAtomically, type Abortable } from "@cocoon/core";
import { acquireLock, tryAcquireLock, type HeldLock } from "./file-lock.ts";
import { findByRef, idPattern, newId, vmNotFound } from "./ids.ts";
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

  private constructor(layout: StoreLayout) {
    this.layout = layout;
  }

  static async open(rootDirectory: string): Promise<VmStore> {
    const layout = storeLayout(rootDirectory);
    const { root: _root, openLock: _open, networkLock: _network, ...directories } = layout;
    try {
      for (const directory of Object.values(directories))
        await mkdir(directory, { recursive: true, mode: 0o700 });
    } catch (error) {
      throw toFault(error, `cannot make the VM store in ${rootDirectory}`);
    }
    return new VmStore(layout);
  }

  directoryOf(id: string): string {
    return join(this.layout.vms, id);
  }

  /** All VMs, oldest first; those without a creation time first of all. */
  async list(): Promise<readonly StoredVm[]> {
    const ids = await readdir(this.layout.vms);
    const found = await Promise.all(ids.map((id) => this.#tryLoad(id)));
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
    const directory = this.directoryOf(record.id);
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
  ): Promise<{ readonly id: string; readonly directory: string; readonly lock: HeldLock }> {
    const id = newId();
    const directory = this.directoryOf(id);
    await mkdir(directory, { mode: 0o700 });
    return { id, directory, lock: await this.lock(id, options) };
  }

  /** Waits until nobody else works on that VM. `notFound` when it is gone. */
  async lock(id: string, options: Abortable): Promise<HeldLock> {
    try {
      return await acquireLock(join(this.directoryOf(id), vmFile.lock), options);
    } catch (error) {
      if (systemCode(error) === "ENOENT") throw vmNotFound(id);
      throw error;
    }
  }

  /** The lock, unless somebody works on that VM or it is gone. */
  tryLock(id: string): HeldLock | undefined {
    try {
      return tryAcquireLock(join(this.directoryOf(id), vmFile.lock));
    } catch (error) {
      if (systemCode(error) === "ENOENT") return undefined;
      throw error;
    }
  }

  /** Gives the name to the VM, whose directory exists. `alreadyExists` when another VM has it. */
  async claimName(name: string, id: string, options: Abortable): Promise<void> {
    using _lock = await acquireLock(join(this.layout.root, "names.lock"), options);
    const path = join(this.layout.names, name);
    const holder = await tryRead(path);
    // A name whose VM has no directory was left behind by a process that died: directories come before names.
    if (holder !== undefined && holder !== id && (await exists(this.directoryOf(holder))))
      throw new Fault("alreadyExists", `vm name "${name}" already exists (id: ${holder})`);
    await writeFileAtomically(path, id, { mode: 0o600, sync: false });
  }

  /** Removes everything of the VM; the caller holds its lock and has ended its process. The name is free afterwards. */
  async remove(id: string, options: Abortable): Promise<void> {
    const trash = join(this.layout.trash, `${id}-${newId()}`);
    const name = (await this.#tryLoad(id))?.name ?? (await this.#claimedNameOf(id));
    await rename(this.directoryOf(id), trash);
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

  /** Removes names and change marks whose VM is gone. */
  async sweepNames(): Promise<readonly string[]> {
    const removed: string[] = [];
    for (const name of await readdir(this.layout.names)) {
      const holder = (await tryRead(join(this.layout.names, name))) ?? "";
      if (await exists(this.directoryOf(holder))) continue;
      await this.#releaseName(name, holder, { signal: AbortSignal.timeout(10_000) });
      removed.push(name);
    }
    for (const id of await readdir(this.layout.changes))
      if (!(await exists(this.directoryOf(id)))) await rm(join(this.layout.changes, id), { force: true });
    return removed;
  }

  async #releaseName(name: string, id: string, options: Abortable): Promise<void> {
    if (name === "") return;
    using _lock = await acquireLock(join(this.layout.root, "names.lock"), options);
    const path = join(this.layout.names, name);
    if ((await tryRead(path)) === id) await unlink(path);
  }

  async #tryLoad(id: string): Promise<StoredVm | undefined> {
    const directory = this.directoryOf(id);
    const { record, why } = await tryParse(join(directory, vmFile.record));
    if (record) return { kind: "record", id, name: record.name, record };
    if (why === undefined) return undefined;
    return { kind: "damaged", id, name: await this.#claimedNameOf(id), why };
  }

  async #claimedNameOf(id: string): Promise<string> {
    for (const name of await readdir(this.layout.names))
      if ((await tryRead(join(this.layout.names, name))) === id) return name;
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
    return parsed.success ? { record: parsed.data } : { why: messageOf(parsed.error) };
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

async function tryRead(path: string): Promise<string | undefined> {
  try {
    return (await readFile(path, "utf8")).trim();
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}

async function exists(path: string): Promise<boolean> {
  try {
    await (await open(path, "r")).close();
    return true;
  } catch (error) {
    if (systemCode(error) === "ENOENT") return false;
    throw error;
  }
}
