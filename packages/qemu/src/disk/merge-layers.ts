/**
 * Keeps chains of disk layers short. Every save and every clone adds a layer; a machine that sleeps and wakes every day
 * would collect hundreds. When there are too many, QEMU copies what lies between the base and the top into the top while
 * the guest runs.
 *
 * QEMU would name the base in the top's header as soon as the copying ends, while the copies are still in its caches; a
 * kill would then lose them. So each job waits (`pending`) for us, and the order is: flush, prove by the tables on disk
 * that the copies are there, let QEMU change the header, flush that, write the record, remove the bypassed layers.
 * Dying between any two steps leaves a chain that is complete, the old one or the new one.
 */
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { Fault, getErrorMessage, sleep, type Abortable } from "@cocoon/core";
import { vmFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { diskNode } from "../process/arguments.ts";
import type { QemuContext } from "../context.ts";
import { syncFile } from "../store/durable.ts";
import { checkChains, countMissingInTop, syncTopLayers } from "./disk-chain.ts";
import { connectQmp, type QmpClient } from "../qmp/qmp.ts";

/** Base, this many layers between, and the top. */
const maxLayers = 8;
const cancelMs = 30_000;
const finishMs = 20_000;
const pollMs = 10;

/** Starts merges where they are due. The caller holds the VM's lock; a failure changes nothing and is only logged. */
export async function startMerges(context: QemuContext, record: VmRecord, options: Abortable): Promise<void> {
  const due = record.disks.flatMap((disk, index) =>
    disk.layers.length > maxLayers ? [{ disk, index }] : [],
  );
  // Layers that are still coming are merged once they are here.
  if (due.length === 0 || record.state !== "running" || record.lazy?.state === "loading") return;
  const directory = context.store.getDirectory(record.id);
  try {
    using qmp = await connectQmp({ directory, socket: vmFile.qmp, signal: options.signal });
    for (const { disk, index } of due) await startStream(qmp, { disk, index, ...options });
    context.log.info({ vm: record.id, disks: due.length }, "merging disk layers");
  } catch (error) {
    options.signal.throwIfAborted();
    context.log.warn({ vm: record.id, error: getErrorMessage(error) }, "disk layers could not be merged");
  }
}

interface StreamRequest extends Abortable {
  readonly disk: DiskRecord;
  readonly index: number;
}

async function startStream(qmp: QmpClient, { disk, index, signal }: StreamRequest): Promise<void> {
  const [base] = disk.layers;
  if (!base) return;
  await qmp.execute("block-stream", {
    signal,
    arguments: {
      "job-id": jobId(index),
      device: diskNode(index, disk),
      "base-node": await findNode(qmp, base, { signal }),
      "backing-file": base.file,
      "auto-finalize": false,
    },
  });
}

function jobId(index: number): string {
  return `merge-${index}`;
}

/** QEMU opened the lower layers by the names in their headers, and gave them names of its own. */
async function findNode(
  qmp: QmpClient,
  layer: DiskRecord["layers"][number],
  { signal }: Abortable,
): Promise<string> {
  const nodes = await qmp.execute("query-named-block-nodes", { signal, arguments: { flat: true } });
  const found = nodes.find((node) => node.drv === layer.format && basename(node.file) === layer.file);
  if (!found) throw new Fault("internal", `QEMU has no node for the layer ${layer.file}`);
  return found["node-name"];
}

interface Merging extends Abortable {
  readonly qmp: QmpClient;
  readonly record: VmRecord;
}

/**
 * Finishes merges whose copying is done; the others go on. The caller holds the VM's lock. Returns the record, written
 * when it changed.
 */
async function finishMerges(context: QemuContext, merging: Merging): Promise<VmRecord> {
  const files = join(context.store.getDirectory(merging.record.id), merging.record.files);
  for (const job of await merging.qmp.execute("query-jobs", merging))
    if (job.status === "pending") await finishJob(context, { ...merging, files, id: job.id });
  return applyMerges(context, merging.record);
}

/** Finishes the merges of a running VM. The caller holds its lock. */
export async function finishVmMerges(context: QemuContext, id: string, options: Abortable): Promise<void> {
  const record = await context.store.read(id);
  const directory = context.store.getDirectory(id);
  using qmp = await connectQmp({ directory, socket: vmFile.qmp, signal: options.signal });
  await finishMerges(context, { qmp, record, signal: options.signal });
}

/**
 * Ends all merges, finished or not: a new layer cannot be put on a disk while one is under way. A chain that has become
 * very long is waited for, or a machine that is saved again and again would never get rid of any layer.
 */
export async function endMerges(context: QemuContext, merging: Merging): Promise<VmRecord> {
  const { qmp, record } = merging;
  const busy = async () =>
    (await qmp.execute("query-jobs", merging)).filter(({ status }) => status !== "pending");
  if (record.disks.some((disk) => disk.layers.length > 2 * maxLayers)) {
    const deadline = performance.now() + finishMs;
    while ((await busy()).length > 0 && performance.now() < deadline) await sleep(pollMs, merging);
  }
  const written = await finishMerges(context, merging);
  for (const { id } of await busy()) await cancelJob(qmp, id, merging);
  return applyMerges(context, written);
}

async function finishJob(
  context: QemuContext,
  { qmp, record, files, id, signal }: Merging & { readonly files: string; readonly id: string },
): Promise<void> {
  const index = record.disks.findIndex((_disk, each) => jobId(each) === id);
  const disk = record.disks[index];
  const top = disk?.layers.at(-1);
  if (!disk || !top) return cancelJob(qmp, id, { signal });
  await flushNode(qmp, diskNode(index, disk), { signal });
  await syncFile(join(files, top.file));
  const lower = disk.layers.slice(1, -1).map(({ file }) => file);
  const missing = await countMissingInTop(files, top.file, lower).catch((error: unknown) =>
    getErrorMessage(error),
  );
  if (missing !== 0) {
    context.log.warn({ vm: record.id, disk: disk.name, missing }, "merge not proven; given up");
    return cancelJob(qmp, id, { signal });
  }
  await qmp.execute("job-finalize", { signal, arguments: { id } });
  await awaitGone(qmp, id, { signal });
}

/** QEMU has this as a command for people only; that it worked is shown by the tables on disk. */
async function flushNode(qmp: QmpClient, node: string, { signal }: Abortable): Promise<void> {
  await qmp.execute("human-monitor-command", {
    signal,
    arguments: { "command-line": `qemu-io ${node} flush` },
  });
}

async function cancelJob(qmp: QmpClient, id: string, { signal }: Abortable): Promise<void> {
  await qmp.execute("job-cancel", { signal, arguments: { id } }).catch(() => undefined); // it may just have ended
  await awaitGone(qmp, id, { signal });
}

async function awaitGone(qmp: QmpClient, id: string, options: Abortable): Promise<void> {
  const deadline = performance.now() + cancelMs;
  const isThere = async () => (await qmp.execute("query-jobs", options)).some((job) => job.id === id);
  while ((await isThere()) && performance.now() < deadline) await sleep(pollMs, options);
}

/**
 * Brings the record in line with merges that QEMU has finished, and only then removes the layers that no disk needs any
 * more. `preconditionFailed` when a chain differs in any other way.
 */
export async function applyMerges(context: QemuContext, record: VmRecord): Promise<VmRecord> {
  const files = join(context.store.getDirectory(record.id), record.files);
  const { disks, bypassed } = await checkChains(files, record.disks);
  if (bypassed.length === 0) return record;
  await syncTopLayers(files, disks);
  const merged = { ...record, disks: [...disks] };
  await context.store.write(merged);
  for (const file of bypassed) await rm(join(files, file), { force: true });
  context.log.info({ vm: record.id, layers: bypassed.length }, "merged disk layers");
  return merged;
}
