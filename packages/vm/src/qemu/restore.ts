/**
 * Puts a VM back to one of its own snapshots, in place: same id, name and network, another epoch. The files of the
 * snapshot are linked into a new directory first; the record switches over to it, then the old one goes.
 */
import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault, isFault, messageOf, type Abortable } from "@cocoon/core";
import { newId } from "../store/ids.ts";
import type { StoredSnapshot } from "../store/snapshot-store.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "./context.ts";
import { running, startOf } from "./create.ts";
import { filesFromSnapshot } from "./machine-files.ts";
import { endEverything } from "./process.ts";
import { assertFits } from "./snapshot-description.ts";
import { startMachine } from "./start-machine.ts";

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
  { snapshot, ...options }: Abortable & { readonly snapshot: StoredSnapshot },
): Promise<VmRecord> {
  const directory = context.store.directoryOf(record.id);
  const { description } = snapshot;
  const { process: _process, stopAskedAt: _asked, ...rest } = record;
  const files = nextFiles(record.files);
  await rm(join(directory, files), { recursive: true, force: true });
  await endEverything(record.id, directory);
  const disks = await filesFromSnapshot(join(directory, files), {
    snapshotDirectory: snapshot.directory,
    files: Object.keys(description.files),
    disks: description.disks,
    storageBytes: Math.max(record.config.storageBytes, description.config.storageBytes),
    signal: options.signal,
  });
  const restored: VmRecord = {
    ...rest,
    state: "stopped",
    files,
    disks: [...disks],
    machine: { ...description.machine, uuid: record.machine.uuid, generationId: randomUUID() },
    epoch: newId(),
  };
  await context.store.write(restored);
  await rm(join(directory, record.files), { recursive: true, force: true });
  const started = await tryStart(context, restored, { ...options, start: startOf(description) });
  await context.store.write(started);
  return started;
}

async function tryStart(
  context: QemuContext,
  record: VmRecord,
  options: Parameters<typeof startMachine>[2],
): Promise<VmRecord> {
  try {
    return running(context, record, await startMachine(context, record, options));
  } catch (error) {
    const trouble = `it could not be put back to its snapshot: ${messageOf(error)}`;
    await context.store.write({ ...record, state: "error", trouble });
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
  snapshotId: string,
): Promise<VmRecord> {
  const { signal } = new AbortController();
  await endEverything(record.id, context.store.directoryOf(record.id));
  try {
    return await restoreVm(context, record, { snapshot: await context.snapshots.find(snapshotId), signal });
  } catch (error) {
    if (!isFault(error, "notFound")) return { ...(await context.store.read(record.id)) };
    const { process: _process, ...rest } = record;
    return { ...rest, state: "stopped" };
  }
}
