/** Snapshots of fake guests, as real files: they can be exported, pushed to a registry and brought back. */
import { mkdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { Fault, type Abortable } from "@cocoon/core";
import { exportArchive, importArchive } from "@cocoon/oci";
import * as z from "zod";
import type { SnapshotFiles, VmSnapshots } from "../../runtime.ts";
import type { ExportOptions, ImportDirectoryOptions, ImportOptions, SaveOptions } from "../../requests.ts";
import type { SaveReport, Snapshot } from "../../snapshot.ts";
import { assertPermitted } from "../../state.ts";
import { assertSnapshotName, findByRef, newId, snapshotNotFound } from "../../ids.ts";
import { writeEnvelope, readEnvelope } from "../../wire/snapshot-json.ts";
import type { FakeGuestState } from "./fake-guest.ts";
import type { FakeHost } from "./fake-host.ts";

const stateSchema = z.object({
  disk: z.record(z.string(), z.string()),
  memory: z.record(z.string(), z.string()),
  counted: z.number().exactOptional(),
});

const stateFile = "config.json";
const memoryFile = "memory-ranges";
const memoryBytes = 1024 * 1024;

export class FakeSnapshots implements VmSnapshots {
  readonly #host: FakeHost;

  constructor(host: FakeHost) {
    this.#host = host;
  }

  async save(vmRef: string, options: SaveOptions): Promise<SaveReport> {
    await this.#host.enter("snapshots.save", options.signal);
    const entry = this.#host.find(vmRef);
    assertPermitted(options.disksOnly ? "saveDisks" : "save", entry.vm);
    const snapshot: Snapshot = {
      id: newId(),
      name: options.name ?? "",
      ...(options.description ? { description: options.description } : {}),
      hypervisor: "qemu",
      config: { ...entry.vm.config, labels: {} },
      nics: entry.vm.nics.length,
      imageBlobIds: [],
      createdAt: new Date().toISOString(),
      vmId: entry.vm.id,
      sizeBytes: memoryBytes,
    };
    await this.#store(snapshot, entry.guest.save());
    if (options.resume === false && !options.disksOnly) {
      entry.guest.freeze();
      this.#host.change(entry, { state: "paused" });
    }
    this.#host.change(entry, { snapshotIds: [...entry.vm.snapshotIds, snapshot.id] });
    return { snapshot, pausedMs: 1, dirtyBytes: 4096, tookMs: 2 };
  }

  async list(options: Abortable & { readonly vmRef?: string }): Promise<readonly Snapshot[]> {
    await this.#host.enter("snapshots.list", options.signal);
    const vmId = options.vmRef === undefined ? undefined : this.#host.find(options.vmRef).vm.id;
    return this.all().filter((snapshot) => vmId === undefined || snapshot.vmId === vmId);
  }

  async inspect(ref: string, { signal }: Abortable): Promise<Snapshot> {
    await this.#host.enter("snapshots.inspect", signal);
    return this.find(ref);
  }

  async remove(ref: string, { signal }: Abortable): Promise<void> {
    await this.#host.enter("snapshots.remove", signal);
    const { id } = this.find(ref);
    this.#host.snapshots.delete(id);
    await rm(this.#getDirectory(id), { recursive: true, force: true });
    for (const entry of this.#host.vms.values())
      if (entry.vm.snapshotIds.includes(id))
        this.#host.change(entry, { snapshotIds: entry.vm.snapshotIds.filter((each) => each !== id) });
  }

  async export(ref: string, options: ExportOptions): Promise<Readable> {
    await this.#host.enter("snapshots.export", options.signal);
    const { envelope, files, snapshot } = await this.#listFiles(this.find(ref));
    return exportArchive({ ...options, envelope, files, now: new Date(snapshot.createdAt) });
  }

  async import(archive: Readable, options: ImportOptions): Promise<Snapshot> {
    await this.#host.enter("snapshots.import", options.signal);
    const directory = join(this.#host.directory, `work-${newId()}`);
    await importArchive({ archive, directory, signal: options.signal });
    return this.#importDirectory(directory, { ...options, consume: true });
  }

  async importDirectory(directory: string, options: ImportDirectoryOptions): Promise<Snapshot> {
    await this.#host.enter("snapshots.importDirectory", options.signal);
    return this.#importDirectory(directory, options);
  }

  async #importDirectory(directory: string, options: ImportDirectoryOptions): Promise<Snapshot> {
    const text = await readFile(join(directory, "snapshot.json"), "utf8").catch((error: unknown) => {
      throw new Fault("invalid", "invalid snapshot archive: snapshot.json not found", { cause: error });
    });
    const snapshot = await this.#take(directory, text, options);
    if (options.consume) await rm(directory, { recursive: true, force: true });
    return snapshot;
  }

  async withFiles<T>(
    ref: string,
    use: (files: SnapshotFiles) => Promise<T>,
    { signal }: Abortable,
  ): Promise<T> {
    await this.#host.enter("snapshots.withFiles", signal);
    return use(await this.#listFiles(this.find(ref)));
  }

  all(): readonly Snapshot[] {
    return [...this.#host.snapshots.values()];
  }

  find(ref: string): Snapshot {
    return findByRef(ref, this.all(), snapshotNotFound);
  }

  async readState(id: string): Promise<FakeGuestState> {
    return stateSchema.parse(JSON.parse(await readFile(join(this.#getDirectory(id), stateFile), "utf8")));
  }

  #getDirectory(id: string): string {
    return join(this.#host.directory, id);
  }

  async #store(snapshot: Snapshot, state: FakeGuestState): Promise<void> {
    if (snapshot.name !== "") assertSnapshotName(snapshot.name);
    const holder = snapshot.name === "" ? undefined : this.all().find((each) => each.name === snapshot.name);
    if (holder)
      throw new Fault(
        "alreadyExists",
        `snapshot name "${snapshot.name}" already exists (already in use by ${holder.id})`,
      );
    const directory = this.#getDirectory(snapshot.id);
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, stateFile), JSON.stringify(state));
    // Something to carry: memory that no two snapshots share entirely.
    await writeFile(join(directory, memoryFile), Buffer.alloc(memoryBytes, snapshot.id));
    this.#host.snapshots.set(snapshot.id, snapshot);
  }

  async #take(directory: string, envelope: string, options: ImportOptions): Promise<Snapshot> {
    const { vmId: _vmId, ...original } = readEnvelope(envelope);
    const text = await readFile(join(directory, stateFile), "utf8").catch(() => "");
    const state = stateSchema.safeParse(text === "" ? undefined : JSON.parse(text));
    if (!state.success) throw new Fault("preconditionFailed", "the snapshot is not of a fake guest");
    const description = options.description ?? original.description;
    const snapshot: Snapshot = {
      ...original,
      id: newId(),
      name: options.name ?? original.name,
      ...(description ? { description } : {}),
      createdAt: new Date().toISOString(),
      sizeBytes: memoryBytes,
    };
    await this.#store(snapshot, state.data);
    return snapshot;
  }

  async #listFiles(snapshot: Snapshot): Promise<SnapshotFiles> {
    const directory = this.#getDirectory(snapshot.id);
    const files = await Promise.all(
      [stateFile, memoryFile].map(async (name) => {
        const path = join(directory, name);
        return { name, path, sizeBytes: (await stat(path)).size, mode: 0o644 };
      }),
    );
    return { snapshot, envelope: writeEnvelope(snapshot), files };
  }
}
