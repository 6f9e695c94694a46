/**
 * Saves the disks of a machine that does not run, as they are: for one that cannot boot any more, so that removing it loses
 * nothing. A machine made from such a snapshot boots.
 */
import { copyFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import type { QemuContext } from "../context.ts";
import { applyMerges } from "../disk/merge-layers.ts";
import { assertLoaded } from "../lazy/finish-loading.ts";
import { createTopLayer, planLayer } from "../machine/machine-files.ts";
import { syncFilesIn } from "../store/durable.ts";
import { machineFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { describeFiles, linkImmutableFiles, type SaveOutcome } from "./save.ts";

/** The caller holds the VM's lock and knows that it does not run. */
export async function saveDisks(
  context: QemuContext,
  recorded: VmRecord,
  request: Abortable & { readonly directory: string },
): Promise<SaveOutcome> {
  assertLoaded(recorded);
  const before = await applyMerges(context, recorded);
  const files = join(context.store.getDirectory(before.id), before.files);
  await linkImmutableFiles(files, before, request.directory);
  if (before.machine.firmware === "uefi")
    await copyFile(
      join(files, machineFile.firmwareVariables),
      join(request.directory, machineFile.firmwareVariables),
    );
  // What the snapshot has is never written again: the machine goes on in layers of its own.
  const disks = before.disks.map((disk) => (disk.readOnly ? disk : planLayer(disk)));
  for (const disk of disks) if (!disk.readOnly) await replaceTopLayer(files, disk);
  await syncFilesIn(files);
  const record: VmRecord = { ...before, disks, updatedAt: context.now().toISOString() };
  await context.store.write(record);
  const description = await describeFiles(before, "none", request.directory);
  return { record, description, pausedMs: 0, dirtyBytes: 0 };
}

/** A process that died before it wrote the record may have left the file; no record names it, and no QEMU runs. */
async function replaceTopLayer(files: string, disk: DiskRecord): Promise<void> {
  await rm(join(files, disk.layers.at(-1)?.file ?? ""), { force: true });
  await createTopLayer(files, disk);
}
