/**
 * Keeps chains of disk layers short. Every save and every clone adds a layer; a machine that sleeps and wakes every day
 * would collect hundreds. When there are too many, QEMU is asked to copy what lies between the base and the top into
 * the top while the guest runs. It does so on its own, also when we are gone; what the chain is then is read from the
 * files' own heads, before it matters again.
 */
import { rm } from "node:fs/promises";
import { basename, join } from "node:path";
import { Fault, messageOf, sleep, type Abortable } from "@cocoon/core";
import { vmFile } from "../store/layout.ts";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { diskNode } from "./arguments.ts";
import type { QemuContext } from "./context.ts";
import { readQcow2Head } from "./qcow2.ts";
import { connectQmp, type QmpClient } from "./qmp.ts";

/** Base, this many layers between, and the top. */
const maxLayers = 8;
const cancelMs = 30_000;
const finishMs = 20_000;

/** Starts the copying where it is due. The caller holds the VM's lock; a failure changes nothing and is only noted. */
export async function thinOut(context: QemuContext, record: VmRecord, options: Abortable): Promise<void> {
  const due = record.disks.flatMap((disk, index) =>
    disk.layers.length > maxLayers ? [{ disk, index }] : [],
  );
  if (due.length === 0 || record.state !== "running") return;
  const directory = context.store.directoryOf(record.id);
  try {
    using qmp = await connectQmp({ directory, socket: vmFile.qmp, signal: options.signal });
    for (const { disk, index } of due) await startStream(qmp, { disk, index, ...options });
    context.log.info({ vm: record.id, disks: due.length }, "thinning out disk layers");
  } catch (error) {
    options.signal.throwIfAborted();
    context.log.warn({ vm: record.id, error: messageOf(error) }, "disk layers could not be thinned out");
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
      "job-id": `thin-out-${index}`,
      device: diskNode(index, disk),
      "base-node": await nodeOf(qmp, base, { signal }),
      "backing-file": base.file,
    },
  });
}

/** QEMU opened the lower layers by what the files say of each other, and gave them names of its own. */
async function nodeOf(
  qmp: QmpClient,
  layer: DiskRecord["layers"][number],
  { signal }: Abortable,
): Promise<string> {
  const nodes = await qmp.execute("query-named-block-nodes", { signal, arguments: { flat: true } });
  const found = nodes.find((node) => node.drv === layer.format && basename(node.file) === layer.file);
  if (!found) throw new Fault("internal", `QEMU has no node for the layer ${layer.file}`);
  return found["node-name"];
}

/**
 * Ends copying that is under way: a new layer cannot be put on a disk meanwhile. A chain that has become very long is
 * waited for, or a machine that is saved again and again would never get rid of any layer.
 */
export async function endThinningOut(
  qmp: QmpClient,
  disks: readonly DiskRecord[],
  options: Abortable,
): Promise<void> {
  const jobs = () => qmp.execute("query-block-jobs", options);
  if (disks.some((disk) => disk.layers.length > 2 * maxLayers)) {
    const patience = performance.now() + finishMs;
    while ((await jobs()).length > 0 && performance.now() < patience) await sleep(10, options);
  }
  for (const { device } of await jobs())
    await qmp
      .execute("block-job-cancel", { signal: options.signal, arguments: { device } })
      .catch(() => undefined); // it may just have ended
  const deadline = performance.now() + cancelMs;
  while ((await jobs()).length > 0 && performance.now() < deadline) await sleep(10, options);
}

/** The disks with the layers that they really stand on. Layers that fell out of a chain are removed. */
export async function withActualLayers(
  files: string,
  disks: readonly DiskRecord[],
): Promise<readonly DiskRecord[]> {
  return Promise.all(disks.map(async (disk) => (disk.readOnly ? disk : actual(files, disk))));
}

async function actual(files: string, disk: DiskRecord): Promise<DiskRecord> {
  const known = new Map(disk.layers.map((layer) => [layer.file, layer]));
  const chain: DiskRecord["layers"] = [];
  for (let layer = disk.layers.at(-1); layer;) {
    chain.unshift(layer);
    const below: string | undefined =
      layer.format === "qcow2" ? (await readQcow2Head(join(files, layer.file))).backingFile : undefined;
    layer = below === undefined ? undefined : known.get(below);
  }
  if (chain.length === disk.layers.length) return disk;
  const kept = new Set(chain.map(({ file }) => file));
  for (const { file } of disk.layers) if (!kept.has(file)) await rm(join(files, file), { force: true });
  return { ...disk, layers: chain };
}
