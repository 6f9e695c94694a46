/**
 * The chain of layers that a disk stands on, compared with the VM's record. QEMU opens a chain by what the files'
 * headers name; a header that names another file than the record would give the guest another disk without any error.
 * The one difference that is accepted is a finished merge, and only where the top layer's tables on disk hold everything
 * that the bypassed layers hold.
 */
import { open } from "node:fs/promises";
import { join } from "node:path";
import { Fault, getErrorMessage, syncDirectory } from "@cocoon/core";
import type { DiskRecord } from "../store/vm-record.ts";
import { syncFile } from "../store/durable.ts";
import { countMissingClusters } from "./qcow2-allocation.ts";
import { readQcow2Head } from "./qcow2.ts";

type Layer = DiskRecord["layers"][number];

export interface CheckedChains {
  /** With the layers that the disks stand on now. */
  readonly disks: readonly DiskRecord[];
  /** Layers that the record names and no disk needs any more: to be removed once the record is written. */
  readonly bypassed: readonly string[];
}

/** `preconditionFailed` when a chain differs from the record and no proven merge explains it. */
export async function checkChains(files: string, disks: readonly DiskRecord[]): Promise<CheckedChains> {
  const checked = await Promise.all(disks.map((disk) => checkChain(files, disk)));
  return {
    disks: checked.map(({ disk }) => disk),
    bypassed: checked.flatMap(({ bypassed }) => bypassed),
  };
}

interface CheckedChain {
  readonly disk: DiskRecord;
  readonly bypassed: readonly string[];
}

async function checkChain(files: string, disk: DiskRecord): Promise<CheckedChain> {
  const { layers } = disk;
  const [base] = layers;
  const top = layers.at(-1);
  if (!base || !top) throw new Fault("internal", `disk ${disk.name} has no layer`);
  const below = await readBacking(files, top);
  if (layers.length > 2 && below === base.file) {
    const bypassed = layers.slice(1, -1).map(({ file }) => file);
    await assertMerged(files, { disk, top: top.file, bypassed });
    return { disk: { ...disk, layers: [base, top] }, bypassed };
  }
  for (const [index, layer] of layers.entries())
    assertStandsOn(disk, { layer, actual: await readBacking(files, layer), recorded: layers[index - 1] });
  return { disk, bypassed: [] };
}

async function readBacking(files: string, layer: Layer): Promise<string | undefined> {
  const path = join(files, layer.file);
  try {
    if (layer.format === "qcow2") return (await readQcow2Head(path)).backingFile;
    await (await open(path, "r")).close();
    return undefined;
  } catch (error) {
    throw new Fault(
      "preconditionFailed",
      `disk layer ${layer.file} cannot be read: ${getErrorMessage(error)}`,
      {
        cause: error,
      },
    );
  }
}

function assertStandsOn(
  disk: DiskRecord,
  {
    layer,
    actual,
    recorded,
  }: { readonly layer: Layer; readonly actual: string | undefined; readonly recorded: Layer | undefined },
): void {
  if (actual === recorded?.file) return;
  throw new Fault(
    "preconditionFailed",
    `disk ${disk.name} is not as recorded: layer ${layer.file} stands on ${actual ?? "nothing"} instead of ${recorded?.file ?? "nothing"}; its files are kept, restore the VM from a snapshot`,
  );
}

async function assertMerged(
  files: string,
  {
    disk,
    top,
    bypassed,
  }: { readonly disk: DiskRecord; readonly top: string; readonly bypassed: readonly string[] },
): Promise<void> {
  const missing = await countMissingInTop(files, top, bypassed);
  if (missing === 0) return;
  throw new Fault(
    "preconditionFailed",
    `disk ${disk.name} is not as recorded: layer ${top} was merged with ${bypassed.length} layers but lacks ${missing} of their clusters; its files are kept, restore the VM from a snapshot`,
  );
}

/** How many clusters of the lower layers the top layer's file does not hold. */
export async function countMissingInTop(
  files: string,
  top: string,
  lower: readonly string[],
): Promise<number> {
  try {
    return await countMissingClusters(
      join(files, top),
      lower.map((file) => join(files, file)),
    );
  } catch (error) {
    throw new Fault(
      "preconditionFailed",
      `the merge into ${top} cannot be proven: ${getErrorMessage(error)}`,
      {
        cause: error,
      },
    );
  }
}

/** Makes the top layers survive a power cut, content and name. */
export async function syncTopLayers(files: string, disks: readonly DiskRecord[]): Promise<void> {
  for (const disk of disks) if (!disk.readOnly) await syncFile(join(files, disk.layers.at(-1)?.file ?? ""));
  await syncDirectory(files);
}
