/**
 * Memory and disks of a machine that runs on, copied for sending them in advance. Not one state of the machine: what it changes
 * meanwhile is found when it is saved. So there is no device state and no description: nothing can be restored from it.
 */
import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { isFault, type Abortable } from "@cocoon/core";
import type { LiveFiles } from "@cocoon/vm";
import { writeEnvelope } from "@cocoon/vm/wire";
import type { QemuContext } from "../context.ts";
import { savesPageByPage } from "../machine/machine.ts";
import { operate } from "../machine/operate.ts";
import { syncFile } from "../store/durable.ts";
import { copySparsely, linkOrCopy } from "../store/immutable-files.ts";
import type { SnapshotWork } from "../store/snapshot-store.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { LiveCopies } from "./live-copies.ts";
import { listBootFiles } from "./save.ts";
import { copyLiveMemory, countPrivateBytes } from "./save-memory.ts";

export interface LiveRequest extends Abortable {
  /** Less than that is not worth a copy. */
  readonly leastBytes: number;
}

/**
 * Undefined, and `use` is not called, when little would be gained or this machine is not saved page by page. The copy of its
 * memory is kept for the next save.
 */
export async function withLiveFiles<T>(
  context: QemuContext,
  { ref, leastBytes, copies, signal }: LiveRequest & { readonly ref: string; readonly copies: LiveCopies },
  use: (files: LiveFiles) => Promise<T>,
): Promise<T | undefined> {
  await using stack = new AsyncDisposableStack();
  const work = stack.use(await context.snapshots.begin("", { signal }));
  const copied = await operate(context, { ref, action: "save", signal }, async ({ record }) => {
    await copies.drop(record.id);
    if (!(await isWorthwhile(context, record, leastBytes))) return undefined;
    await copyFiles(context, record, { directory: work.directory, signal });
    const memory = await copyLiveMemory(context, record, { directory: work.directory, signal });
    return { record, memory };
  });
  if (!copied) return undefined;
  const { record, memory } = copied;
  const result = await use(await describe(context, record, work));
  for (const name of await readdir(work.directory))
    if (join(work.directory, name) !== memory.path) await rm(join(work.directory, name));
  await syncFile(memory.path);
  const owned = stack.move();
  await copies.keep(record.id, { memory, [Symbol.asyncDispose]: () => owned.disposeAsync() });
  return result;
}

async function describe(
  context: QemuContext,
  record: VmRecord,
  work: Pick<SnapshotWork, "id" | "directory">,
): Promise<LiveFiles> {
  const files = await Promise.all(
    (await readdir(work.directory)).map(async (name) => {
      const path = join(work.directory, name);
      const { size, blocks } = await stat(path);
      return { name, path, sizeBytes: size, storedBytes: blocks * 512, mode: 0o644 };
    }),
  );
  const envelope = writeEnvelope({
    id: work.id,
    name: "",
    hypervisor: "qemu",
    config: { ...record.config, labels: {} },
    nics: record.nics.length,
    imageBlobIds: record.imageBlobIds,
    createdAt: context.now().toISOString(),
    sizeBytes: files.reduce((sum, { storedBytes }) => sum + storedBytes, 0),
  });
  return { envelope, files };
}

async function isWorthwhile(context: QemuContext, record: VmRecord, leastBytes: number): Promise<boolean> {
  if (record.state !== "running" || record.lazy?.state === "loading") return false;
  if (!savesPageByPage(record.machine) || !context.settings.readPages) return false;
  try {
    const files = join(context.store.getDirectory(record.id), record.files);
    const tops = await Promise.all(listTopLayers(record).map((file) => stat(join(files, file))));
    const written = tops.reduce((sum, { blocks }) => sum + blocks * 512, 0);
    return written + (await countPrivateBytes(context, record)) >= leastBytes;
  } catch (error) {
    if (isFault(error, "forbidden")) return false;
    throw error;
  }
}

function listTopLayers({ disks }: VmRecord): string[] {
  return disks.flatMap((disk) => (disk.readOnly ? [] : (disk.layers.at(-1)?.file ?? [])));
}

async function copyFiles(
  context: QemuContext,
  record: VmRecord,
  target: Abortable & { readonly directory: string },
): Promise<void> {
  const files = join(context.store.getDirectory(record.id), record.files);
  const tops = new Set(listTopLayers(record));
  const layers = record.disks.flatMap((disk) => disk.layers.map((layer) => layer.file));
  for (const file of new Set([...listBootFiles(record), ...layers])) {
    const [source, copy] = [join(files, file), join(target.directory, file)];
    if (tops.has(file)) await copySparsely(source, copy, target);
    else await linkOrCopy(source, copy);
  }
}
