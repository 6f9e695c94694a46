/**
 * A new layer on each disk of a running guest: what it has written so far becomes immutable, what it writes from now
 * on goes to the new layer. The layers are opened while the guest runs; switching over is one transaction.
 */
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { diskFileNode, diskNode } from "./arguments.ts";
import type { QemuContext } from "./context.ts";
import { addLayer } from "./machine-files.ts";
import { handOverLayers } from "./ownership.ts";
import type { QmpClient } from "./qmp.ts";

export interface LayerSwitch {
  /** The disks as they are after `commit`. */
  readonly disks: readonly DiskRecord[];
  commit(options: Abortable): Promise<void>;
  /** Undoes the preparation; not after `commit`. */
  cancel(): Promise<void>;
}

export async function prepareLayers(
  qmp: QmpClient,
  {
    context,
    record,
    directory,
  }: { readonly context: QemuContext; readonly record: VmRecord; readonly directory: string },
  options: Abortable,
): Promise<LayerSwitch> {
  const files = join(directory, record.files);
  const disks = await Promise.all(
    record.disks.map(async (disk) => (disk.readOnly ? disk : addLayer(files, disk))),
  );
  const added = disks.flatMap((disk, index) => {
    const below = record.disks[index];
    return disk.readOnly || !below ? [] : [newNode(record.files, { disk, below, index })];
  });
  const change = {
    disks,
    commit: async ({ signal }: Abortable) => {
      const actions = added.map(({ below, node }) => ({
        type: "blockdev-snapshot",
        data: { node: below, overlay: node },
      }));
      await qmp.execute("transaction", { signal, arguments: { actions } });
    },
    cancel: () => forget(qmp, files, added),
  };
  try {
    await handOverLayers(context, files, disks);
    for (const disk of record.disks) if (!disk.readOnly) await flush(files, disk);
    for (const { definition } of added)
      await qmp.execute("blockdev-add", { signal: options.signal, arguments: definition });
  } catch (error) {
    await change.cancel();
    throw error;
  }
  return change;
}

interface NewNode {
  readonly below: string;
  readonly node: string;
  readonly file: string;
  readonly definition: Readonly<Record<string, unknown>>;
}

function newNode(
  files: string,
  { disk, below, index }: { readonly disk: DiskRecord; readonly below: DiskRecord; readonly index: number },
): NewNode {
  const file = disk.layers.at(-1)?.file ?? "";
  const node = diskNode(index, disk);
  return {
    below: diskNode(index, below),
    node,
    file,
    definition: {
      driver: "qcow2",
      "node-name": node,
      backing: null,
      discard: "unmap",
      "detect-zeroes": "unmap",
      file: {
        driver: "file",
        filename: `${files}/${file}`,
        "node-name": diskFileNode(index, disk),
        discard: "unmap",
      },
    },
  };
}

async function forget(qmp: QmpClient, files: string, added: readonly NewNode[]): Promise<void> {
  const { signal } = new AbortController();
  for (const { node, file } of added) {
    await qmp.execute("blockdev-del", { signal, arguments: { "node-name": node } }).catch(() => undefined); // never added
    await rm(join(files, file), { force: true });
  }
}

/** QEMU flushes its disks when it freezes the guest; done now, there is little left to do then. */
async function flush(files: string, disk: DiskRecord): Promise<void> {
  const handle = await open(join(files, disk.layers.at(-1)?.file ?? ""), "r");
  try {
    await handle.datasync();
  } finally {
    await handle.close();
  }
}
