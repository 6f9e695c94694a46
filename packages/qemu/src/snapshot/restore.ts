/**
 * Puts a VM back to one of its own snapshots, in place: same id, name and network, another epoch. The files of the
 * snapshot are linked into a new directory first; the record switches over to it, then the old one goes.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault, isFault, getErrorMessage, type Abortable } from "@cocoon/core";
import { newId } from "@cocoon/vm/engine";
import type { StoredSnapshot } from "../store/snapshot-store.ts";
import type { Intent } from "../store/intents.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { syncFilesIn } from "../store/durable.ts";
import type { QemuContext } from "../context.ts";
import { refreshNics } from "../machine/attach-network.ts";
import { running, chooseStart } from "../machine/create.ts";
import { filesFromSnapshot, linkEmptyMemory } from "../machine/machine-files.ts";
import { endEverything } from "../process/process.ts";
import { assertFits } from "./snapshot-description.ts";
import { startMachine } from "../process/start-machine.ts";

/** Throws before anything is touched when the snapshot is another VM's or does not fit. */
export function assertRestorable(context: QemuContext, record: VmRecord, snapshot: StoredSnapshot): void {
  const { description } = snapshot;
  if (snapshot.record.vmId !== record.id)
    throw new Fault(
      "conflict",
      `snapshot ${snapshot.name || snapshot.id} does not belong to VM ${record.name}`,
    );
  if (description.nics.length !== record.nics.length)
    throw new Fault(
      "conflict",
      `nic count mismatch: vm has ${record.nics.length}, snapshot has ${description.nics.length}`,
    );
  assertFits(description, context.host);
}

/** What it did since the snapshot is lost from here on. The caller has written the intent. */
export async function restoreVm(
  context: QemuContext,
  record: VmRecord,
  { snapshot, epoch, ...options }: Abortable & { readonly snapshot: StoredSnapshot; readonly epoch: string },
): Promise<VmRecord> {
  const directory = context.store.getDirectory(record.id);
  const { description } = snapshot;
  const { process: _process, stopAskedAt: _asked, ...rest } = record;
  const files = nextFiles(record.files);
  await rm(join(directory, files), { recursive: true, force: true });
  await endEverything(record.id, directory);
  const start = chooseStart(description);
  const disks = await filesFromSnapshot(join(directory, files), {
    snapshotDirectory: snapshot.directory,
    files: Object.keys(description.files),
    disks: description.disks,
    storageBytes: Math.max(record.config.storageBytes, description.config.storageBytes),
    signal: options.signal,
  });
  if (start === "boot")
    await linkEmptyMemory(context, join(directory, files), description.machine.memoryBytes);
  const restored: VmRecord = {
    ...rest,
    state: "stopped",
    files,
    disks: [...disks],
    machine: { ...description.machine, uuid: record.machine.uuid, generationId: randomUUID() },
    epoch,
  };
  await syncFilesIn(join(directory, files)); // the old files go as soon as the record is written
  await context.store.write(restored);
  await rm(join(directory, record.files), { recursive: true, force: true });
  const started = await tryStart(context, restored, { ...options, start });
  await context.store.write(started);
  return started;
}

async function tryStart(
  context: QemuContext,
  record: VmRecord,
  options: Parameters<typeof startMachine>[2],
): Promise<VmRecord> {
  try {
    const connected = { ...record, nics: await refreshNics(context, record, options) };
    const process = await startMachine(context, connected, options);
    return running(context, connected, { process, from: options.start === "boot" ? "boot" : "snapshot" });
  } catch (error) {
    const problem = `it could not be put back to its snapshot: ${getErrorMessage(error)}`;
    await context.store.write({ ...record, state: "error", problem });
    throw error;
  }
}

function nextFiles(files: string): string {
  return `files-${Number(/\d+$/.exec(files)?.[0] ?? 0) + 1}`;
}

/** Goes through with a restore whose process died. Without the snapshot the VM stays what it was, stopped. */
export async function finishRestore(
  context: QemuContext,
  record: VmRecord,
  intent: Extract<Intent, { readonly kind: "restore" }>,
): Promise<VmRecord> {
  const { signal } = new AbortController();
  await endEverything(record.id, context.store.getDirectory(record.id));
  try {
    const snapshot = await context.snapshots.find(intent.snapshotId);
    return await restoreVm(context, record, { snapshot, epoch: intent.epochs?.[1] ?? newId(), signal });
  } catch (error) {
    if (!isFault(error, "notFound")) return { ...(await context.store.read(record.id)) };
    const { process: _process, ...rest } = record;
    return { ...rest, state: "stopped" };
  }
}
