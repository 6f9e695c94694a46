/** The snapshots of this backend, as the port offers them. */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { Fault, tryReadFile, type Abortable } from "@cocoon/core";
import { exportArchive, importArchive } from "@cocoon/oci";
import type {
  ExportOptions,
  ImportDirectoryOptions,
  ImportOptions,
  LiveFiles,
  SaveOptions,
  SaveReport,
  Snapshot,
  SnapshotFiles,
  VmSnapshots,
} from "@cocoon/vm";
import { copySparsely, linkOrCopy } from "../store/immutable-files.ts";
import { snapshotDescriptionFile, snapshotRecordFile } from "../store/layout.ts";
import { toSnapshot, type SnapshotWork, type StoredSnapshot } from "../store/snapshot-store.ts";
import { writeEnvelope, readEnvelope } from "@cocoon/vm/wire";
import type { QemuContext } from "../context.ts";
import { checkImported } from "./imported-files.ts";
import { awaitLoaded } from "../lazy/finish-loading.ts";
import { operate } from "../machine/operate.ts";
import { syncFilesIn } from "../store/durable.ts";
import type { LiveCopies } from "./live-copies.ts";
import { withLiveFiles } from "./live-files.ts";
import { saveDisks } from "./save-disks.ts";
import { saveMachine } from "./save.ts";
import { readSnapshotDescription } from "./snapshot-description.ts";
import { startMerges } from "../disk/merge-layers.ts";

export class QemuSnapshots implements VmSnapshots {
  readonly #context: QemuContext;
  readonly #copies: LiveCopies;

  constructor(context: QemuContext, copies: LiveCopies) {
    this.#context = context;
    this.#copies = copies;
  }

  async save(vmRef: string, options: SaveOptions): Promise<SaveReport> {
    const began = performance.now();
    const context = this.#context;
    const name = options.name ?? "";
    await awaitLoaded(context, vmRef, options);
    await using work = await context.snapshots.begin(name, options);
    const outcome = await operate(
      context,
      { ref: vmRef, action: options.disksOnly ? "saveDisks" : "save", signal: options.signal },
      async (vm) => {
        await using live = this.#copies.take(vm.record.id);
        const request = {
          directory: work.directory,
          resume: options.resume ?? true,
          live: live?.memory,
          signal: options.signal,
        };
        const save = options.disksOnly ? saveDisks : saveMachine;
        const saved = await save(context, vm.record, request);
        const kept = await context.snapshots.existing(saved.record.snapshotIds);
        const record = await vm.write({ ...saved.record, snapshotIds: [...kept, work.id] });
        await startMerges(context, record, options);
        return saved;
      },
    );
    await syncFilesIn(work.directory);
    const stored = await work.publish(
      {
        name,
        ...(options.description ? { description: options.description } : {}),
        createdAt: context.now().toISOString(),
        vmId: outcome.record.id,
      },
      outcome.description,
    );
    const { pausedMs, dirtyBytes } = outcome;
    return { snapshot: await toSnapshot(stored), pausedMs, dirtyBytes, tookMs: performance.now() - began };
  }

  async list(options: Abortable & { readonly vmRef?: string }): Promise<readonly Snapshot[]> {
    const vm = options.vmRef === undefined ? undefined : await this.#context.store.find(options.vmRef);
    const all = await this.#context.snapshots.list();
    return Promise.all(all.filter(({ record }) => !vm || record.vmId === vm.id).map(toSnapshot));
  }

  async inspect(ref: string, _options: Abortable): Promise<Snapshot> {
    return toSnapshot(await this.#context.snapshots.find(ref));
  }

  async remove(ref: string, options: Abortable): Promise<void> {
    await this.#context.snapshots.remove(ref, options);
  }

  async export(ref: string, options: ExportOptions): Promise<Readable> {
    const view = await this.#openView(ref, options);
    async function* bytes(): AsyncGenerator<Uint8Array, void, void> {
      await using opened = view;
      const { envelope, files, snapshot } = opened;
      yield* exportArchive({ ...options, envelope, files, now: new Date(snapshot.createdAt) });
    }
    return Readable.from(bytes(), { objectMode: false });
  }

  async import(archive: Readable, options: ImportOptions): Promise<Snapshot> {
    await using work = await this.#context.snapshots.begin("", options);
    const directory = join(work.directory, "archive");
    await importArchive({ archive, directory, signal: options.signal });
    return await this.importDirectory(directory, { ...options, consume: true });
  }

  async importDirectory(directory: string, options: ImportDirectoryOptions): Promise<Snapshot> {
    const text = await readRequired(directory, snapshotRecordFile);
    await using work = await this.#context.snapshots.begin(options.name ?? "", options);
    for (const entry of await readdir(directory, { withFileTypes: true })) {
      if (!entry.isFile() || entry.name === snapshotRecordFile) continue;
      const [source, target] = [join(directory, entry.name), join(work.directory, entry.name)];
      if (options.consume) await linkOrCopy(source, target);
      else await copySparsely(source, target, options);
    }
    const snapshot = await this.#finishImport(work, text, options);
    if (options.consume) await rm(directory, { recursive: true, force: true });
    return snapshot;
  }

  async withFiles<T>(ref: string, use: (files: SnapshotFiles) => Promise<T>, options: Abortable): Promise<T> {
    await using view = await this.#openView(ref, options);
    return await use(view);
  }

  withLiveFiles<T>(
    vmRef: string,
    use: (files: LiveFiles) => Promise<T>,
    options: Abortable & { readonly leastBytes: number },
  ): Promise<T | undefined> {
    return withLiveFiles(this.#context, { ref: vmRef, copies: this.#copies, ...options }, use);
  }

  async #finishImport(work: SnapshotWork, text: string, options: ImportOptions): Promise<Snapshot> {
    const envelope = readEnvelope(text);
    const description = readSnapshotDescription(await readRequired(work.directory, snapshotDescriptionFile));
    await rm(join(work.directory, snapshotDescriptionFile));
    await checkImported(work.directory, description);
    await syncFilesIn(work.directory);
    const name = options.name ?? envelope.name;
    const note = options.description ?? envelope.description;
    if (options.name === undefined) await work.claimName(name, options);
    const record = {
      name,
      ...(note ? { description: note } : {}),
      createdAt: this.#context.now().toISOString(),
    };
    return toSnapshot(await work.publish(record, description));
  }

  /** A directory of links to the snapshot's files: it stays whatever happens to the snapshot. */
  async #openView(ref: string, options: Abortable): Promise<SnapshotFiles & AsyncDisposable> {
    const stored = await this.#context.snapshots.find(ref);
    const work = await this.#context.snapshots.begin("", options);
    try {
      const files = await linkAll(stored, work.directory);
      const snapshot = await toSnapshot(stored);
      const envelope = writeEnvelope(snapshot);
      return { snapshot, envelope, files, [Symbol.asyncDispose]: () => work[Symbol.asyncDispose]() };
    } catch (error) {
      await work[Symbol.asyncDispose]();
      throw error;
    }
  }
}

async function linkAll(stored: StoredSnapshot, directory: string): Promise<SnapshotFiles["files"]> {
  const names = [...Object.keys(stored.description.files), snapshotDescriptionFile].sort();
  const files: SnapshotFiles["files"][number][] = [];
  for (const name of names) {
    const path = join(directory, name);
    await linkOrCopy(join(stored.directory, name), path);
    files.push({ name, path, sizeBytes: (await stat(path)).size, mode: 0o644 });
  }
  return files;
}

async function readRequired(directory: string, name: string): Promise<string> {
  const text = await tryReadFile(join(directory, name));
  if (text === undefined) throw new Fault("invalid", `invalid snapshot archive: ${name} not found`);
  return text;
}
