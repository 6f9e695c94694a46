/** Ends or undoes what an intent says was begun by a process that died. Repeatable: we may die as well. */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { isAlive, type Abortable } from "@cocoon/core";
import { vmNotFound } from "../store/ids.ts";
import { clearIntent, type Intent } from "../store/intents.ts";
import { vmFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { diskNode } from "./arguments.ts";
import type { QemuContext } from "./context.ts";
import { unmake } from "./create.ts";
import { endEverything } from "./process.ts";
import { connectQmp, type QmpClient } from "./qmp.ts";
import { finishRestore } from "./restore.ts";

/** Ends or undoes what the intent says was begun. The caller holds the lock. Returns the record, written. */
export async function makeWhole(context: QemuContext, record: VmRecord, intent: Intent): Promise<VmRecord> {
  const directory = context.store.directoryOf(record.id);
  context.log.info({ vm: record.id, intent: intent.kind }, "making whole what was left half done");
  const whole = await undoOrFinish(context, record, intent);
  await context.store.write(whole);
  await clearIntent(directory);
  return whole;
}

async function undoOrFinish(context: QemuContext, record: VmRecord, intent: Intent): Promise<VmRecord> {
  if (intent.kind === "save") return thaw(context, record, intent);
  if (intent.kind === "restore") return finishRestore(context, record, intent.snapshotId);
  if (intent.kind === "remove") {
    await unmake(context, record.id);
    throw vmNotFound(record.name);
  }
  // A start: nobody was told that it runs, and it did for an instant at most.
  await endEverything(record.id, context.store.directoryOf(record.id));
  return record;
}

const recoveryMs = 30_000;

/** A guest that was frozen for a save goes on, with whatever layers its disks have by now. */
async function thaw(
  context: QemuContext,
  record: VmRecord,
  intent: Extract<Intent, { readonly kind: "save" }>,
): Promise<VmRecord> {
  const directory = context.store.directoryOf(record.id);
  if (!record.process || !isAlive(record.process)) {
    // QEMU is gone too. A new layer that was not in use yet is empty: standing on it changes nothing.
    const exist = await layersExist(join(directory, record.files), intent.disksAfter);
    return exist ? { ...record, disks: intent.disksAfter } : record;
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
  const found = await Promise.all(
    tops.map((path) =>
      stat(path).then(
        () => true,
        () => false,
      ),
    ),
  );
  return found.every(Boolean);
}
