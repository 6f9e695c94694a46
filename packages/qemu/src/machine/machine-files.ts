/**
 * The directory of files that make up one machine: made from an image, or from a snapshot by links. Nothing of it is
 * in use yet; a failure leaves a directory to be removed.
 */
import { copyFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Fault, type Abortable } from "@cocoon/core";
import type { BootableImage, DataDisk } from "@cocoon/vm";
import { emptyFile, keptCopy, linkOrCopy } from "../store/immutable-files.ts";
import { layerFile, layerNumber, machineFile } from "../store/layout.ts";
import type { DiskRecord } from "../store/vm-record.ts";
import type { QemuContext } from "../context.ts";
import type { Machine } from "./machine.ts";
import { createQcow2 } from "../disk/qcow2.ts";

export interface FilesFromImage {
  readonly image: BootableImage;
  readonly machine: Machine;
  readonly storageBytes: number;
  readonly dataDisks: readonly DataDisk[];
}

/** Makes everything but the seed disk; returns the disks. */
export async function filesFromImage(
  context: QemuContext,
  directory: string,
  { image, machine, storageBytes, dataDisks }: FilesFromImage,
): Promise<readonly DiskRecord[]> {
  await mkdir(directory, { mode: 0o700 });
  await linkEmptyMemory(context, directory, machine.memoryBytes);
  await linkFirmware(context, directory, machine);
  if (image.kernel) await linkKernel(directory, image.kernel);
  const base = layerFile("root", 0, image.disk.format);
  await linkOrCopy(image.disk.path, join(directory, base));
  const root: DiskRecord = {
    name: "root",
    role: "cow",
    serial: "cocoon-cow",
    readOnly: false,
    virtualBytes: Math.max(storageBytes, image.disk.virtualBytes),
    layers: [{ file: base, format: image.disk.format }],
  };
  const disks = [await addLayer(directory, root)];
  if (image.seed) disks.push(seedDisk());
  for (const disk of dataDisks) disks.push(await makeDataDisk(directory, disk));
  return disks;
}

function seedDisk(): DiskRecord {
  return {
    name: "cidata",
    role: "cidata",
    serial: "cocoon-cidata",
    readOnly: true,
    virtualBytes: 0,
    layers: [{ file: machineFile.seed, format: "raw" }],
  };
}

async function makeDataDisk(directory: string, disk: DataDisk): Promise<DiskRecord> {
  const name = `data-${disk.name}`;
  const file = layerFile(name, 0, "qcow2");
  await createQcow2({ path: join(directory, file), virtualBytes: disk.sizeBytes });
  return {
    name,
    role: "data",
    serial: disk.name,
    readOnly: false,
    virtualBytes: disk.sizeBytes,
    layers: [{ file, format: "qcow2" }],
    fsType: disk.fsType,
    ...(disk.mountPoint === undefined ? {} : { mountPoint: disk.mountPoint }),
  };
}

/** Guest memory that was never written. */
export async function linkEmptyMemory(context: QemuContext, directory: string, bytes: number): Promise<void> {
  await linkOrCopy(await emptyFile(context.store.layout.shared, bytes), join(directory, machineFile.memory));
}

/** Firmware of the system: SeaBIOS, and OVMF with its variables. */
const firmware = {
  bios: "/usr/share/seabios/bios-256k.bin",
  uefiCode: "/usr/share/OVMF/OVMF_CODE_4M.fd",
  uefiVariables: "/usr/share/OVMF/OVMF_VARS_4M.fd",
} as const;

/**
 * Firmware is mapped as flash, not loaded as ROM: a machine that was restored finds it again when it reboots. Its
 * variables are written by the guest, so they are a copy.
 */
async function linkFirmware(context: QemuContext, directory: string, machine: Machine): Promise<void> {
  const shared = context.store.layout.shared;
  const code = machine.firmware === "uefi" ? firmware.uefiCode : firmware.bios;
  await linkOrCopy(await keptCopy(shared, code), join(directory, machineFile.firmware));
  if (machine.firmware !== "uefi") return;
  await copyFile(firmware.uefiVariables, join(directory, machineFile.firmwareVariables));
}

async function linkKernel(directory: string, kernel: NonNullable<BootableImage["kernel"]>): Promise<void> {
  await linkOrCopy(kernel.path, join(directory, machineFile.kernel));
  if (kernel.initrdPath !== undefined)
    await linkOrCopy(kernel.initrdPath, join(directory, machineFile.initrd));
}

/** Puts an empty layer on top, for the guest to write; the layers below are never written again. */
async function addLayer(
  directory: string,
  disk: DiskRecord,
  virtualBytes: number = disk.virtualBytes,
): Promise<DiskRecord> {
  const next = planLayer(disk, virtualBytes);
  await createTopLayer(directory, next);
  return next;
}

/** The disk with one more layer, which does not exist yet. */
export function planLayer(disk: DiskRecord, virtualBytes: number = disk.virtualBytes): DiskRecord {
  const number = Math.max(...disk.layers.map((layer) => layerNumber(layer.file))) + 1;
  const file = layerFile(disk.name, number, "qcow2");
  return { ...disk, virtualBytes, layers: [...disk.layers, { file, format: "qcow2" }] };
}

export async function createTopLayer(directory: string, disk: DiskRecord): Promise<void> {
  const [backing, top] = disk.layers.slice(-2);
  if (!backing || !top) throw new Fault("internal", `disk ${disk.name} has no layer to build on`);
  await createQcow2({ path: join(directory, top.file), virtualBytes: disk.virtualBytes, backing });
}

export interface FilesFromSnapshot extends Abortable {
  readonly snapshotDirectory: string;
  /** Every file of the snapshot but its descriptions. */
  readonly files: readonly string[];
  readonly disks: readonly DiskRecord[];
  /** New size of the root disk; never smaller. */
  readonly storageBytes: number;
}

/** Links what the snapshot consists of and puts a layer on each disk that the guest writes. */
export async function filesFromSnapshot(
  directory: string,
  from: FilesFromSnapshot,
): Promise<readonly DiskRecord[]> {
  await mkdir(directory, { mode: 0o700 });
  for (const file of from.files) {
    const [source, target] = [join(from.snapshotDirectory, file), join(directory, file)];
    if (file === machineFile.firmwareVariables) await copyFile(source, target);
    else await linkOrCopy(source, target);
  }
  from.signal.throwIfAborted();
  return addTopLayers(directory, from);
}

/** A layer of its own on each disk that the guest writes. */
export async function addTopLayers(
  directory: string,
  { disks, storageBytes }: Pick<FilesFromSnapshot, "disks" | "storageBytes">,
): Promise<readonly DiskRecord[]> {
  return Promise.all(
    disks.map(async (disk) =>
      disk.readOnly ? disk : addLayer(directory, disk, disk.name === "root" ? storageBytes : undefined),
    ),
  );
}
