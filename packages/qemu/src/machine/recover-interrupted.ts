/** Ends or undoes what an intent records as begun by a process that died. Repeatable: we may die as well. */
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { isAlive, pathExists, type Abortable } from "@cocoon/core";
import { vmNotFound } from "@cocoon/vm/engine";
import { clearIntent, type Intent } from "../store/intents.ts";
import { vmFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { diskNode } from "../process/arguments.ts";
import type { QemuContext } from "../context.ts";
import { unmake } from "./create.ts";
import { endEverything } from "../process/process.ts";
import { connectQmp, type QmpClient } from "../qmp/qmp.ts";
import { finishRestore } from "../snapshot/restore.ts";

/** Ends or undoes what the intent records as begun. The caller holds the lock. Returns the record, written. */
export async function recoverInterrupted(
  context: QemuContext,
  record: VmRecord,
  intent: Intent,
): Promise<VmRecord> {
  const directory = context.store.getDirectory(record.id);
  context.log.info({ vm: record.id, intent: intent.kind }, "making whole what was left half done");
  const whole = await undoOrFinish(context, record, intent);
  await context.store.write(whole);
  await clearIntent(directory, intent);
  return whole;
}

async function undoOrFinish(context: QemuContext, record: VmRecord, intent: Intent): Promise<VmRecord> {
  if (intent.kind === "save") return resumeAfterSave(context, record, intent);
  if (intent.kind === "restore")
    return intent.epochs?.includes(record.epoch) === false ? record : finishRestore(context, record, intent);
  if (intent.kind === "remove") {
    await unmake(context, record.id);
    throw vmNotFound(record.name);
  }
  // A start: it was never reported as running, and it did for an instant at most.
  await endEverything(record.id, context.store.getDirectory(record.id));
  return record;
}

const recoveryMs = 30_000;

/** A guest that was frozen for a save goes on, with whatever layers its disks have by now. */
async function resumeAfterSave(
  context: QemuContext,
  record: VmRecord,
  intent: Extract<Intent, { readonly kind: "save" }>,
): Promise<VmRecord> {
  const directory = context.store.getDirectory(record.id);
  if (!record.process || !isAlive(record.process)) {
    // QEMU is gone too. A new layer that was not in use yet is empty: standing on it changes nothing.
    const exist = await layersExist(join(directory, record.files), intent.disksAfter);
    const isNext = intent.disksBefore === undefined || isDeepStrictEqual(record.disks, intent.disksBefore);
    return exist && isNext ? { ...record, disks: intent.disksAfter } : record;
  }
  const signal = AbortSignal.timeout(recoveryMs);
  using qmp = await connectQmp({ directory, socket: vmFile.qmp, signal });
  const switched = await usesLayers(qmp, intent.disksAfter, { signal });
  const { status } = await qmp.execute("query-status", { signal });
  if (intent.wasRunning && status !== "running") await qmp.execute("cont", { signal });
  return {
    ...record,
    state: intent.wasRunning ? "running" : "paused",
    ...(switched ? { disks: intent.disksAfter } : {}),
  };
}

async function usesLayers(
  qmp: QmpClient,
  disks: readonly DiskRecord[],
  options: Abortable,
): Promise<boolean> {
  const index = disks.findIndex((disk) => !disk.readOnly);
  const disk = disks[index];
  if (!disk) return false;
  const node = diskNode(index, disk);
  const blocks = await qmp.execute("query-block", options);
  return blocks.some((block) => block.inserted?.["node-name"] === node);
}

async function layersExist(files: string, disks: readonly DiskRecord[]): Promise<boolean> {
  const tops = disks.map((disk) => join(files, disk.layers.at(-1)?.file ?? ""));
  return (await Promise.all(tops.map(pathExists))).every(Boolean);
}
