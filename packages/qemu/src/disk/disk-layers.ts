/**
 * A new layer on each disk of a running guest: what it has written so far becomes immutable, what it writes from now
 * on goes to the new layer. The layers are opened while the guest runs; switching over is one transaction.
 */
import { open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import type { DiskRecord, VmRecord } from "../store/vm-record.ts";
import { diskFileNode, diskNode } from "../process/arguments.ts";
import type { QemuContext } from "../context.ts";
import { syncTopLayers } from "./disk-chain.ts";
import { createTopLayer, planLayer } from "../machine/machine-files.ts";
import { handOverLayers } from "../process/jail.ts";
import type { QmpClient } from "../qmp/qmp.ts";

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
  const disks = record.disks.map((disk) => (disk.readOnly ? disk : planLayer(disk)));
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
  await removeLeftovers(qmp, { files, added }, options);
  try {
    for (const disk of disks) if (!disk.readOnly) await createTopLayer(files, disk);
    await handOverLayers(context, { ...record, disks }, files);
    await syncTopLayers(files, disks); // before the intent names them
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

/**
 * A process that died before it wrote its intent leaves layers that no record names, and their nodes in QEMU. One that is
 * in use is not removed: then `blockdev-del` fails, and with it the save.
 */
async function removeLeftovers(
  qmp: QmpClient,
  { files, added }: { readonly files: string; readonly added: readonly NewNode[] },
  { signal }: Abortable,
): Promise<void> {
  const nodes = await qmp.execute("query-named-block-nodes", { signal, arguments: { flat: true } });
  const names = new Set(nodes.map((each) => each["node-name"]));
  for (const { node, file } of added) {
    if (names.has(node)) await qmp.execute("blockdev-del", { signal, arguments: { "node-name": node } });
    await rm(join(files, file), { force: true });
  }
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
  await using handle = await open(join(files, disk.layers.at(-1)?.file ?? ""), "r");
  await handle.datasync();
}
