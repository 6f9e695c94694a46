/**
 * Which firmware boots a disk, by its partition table. Disks made for both kinds have a place for the BIOS's boot
 * loader; BIOS is then the faster way. Those without (Windows, some newer images) need UEFI.
 */
import { mkdtemp, open } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { runTool } from "@cocoon/vm/host";

export interface DiskFile extends Abortable {
  readonly path: string;
  readonly format: "qcow2" | "raw";
  readonly work: string;
}

const sectorBytes = 512;
/** The old table, the new one's header, and its 128 entries. */
const tableSectors = 34;
const bootCodeBytes = 440;
const firstEntry = 446;
const protectiveType = 0xee;
const efiSystemType = 0xef;
/** 21686148-6449-6E6F-744E-656564454649 as it is stored: where GRUB puts its second stage. */
const biosBootPartition = Buffer.from("Hah!IdontNeedEFI", "latin1");

export async function detectFirmware(disk: DiskFile): Promise<"bios" | "uefi"> {
  return chooseFirmware(await readTables(disk));
}

/** Pure: `start` is the beginning of the disk. */
export function chooseFirmware(start: Buffer): "bios" | "uefi" {
  const types = [0, 1, 2, 3].map((index) => start[firstEntry + index * 16 + 4] ?? 0);
  if (types.includes(protectiveType)) {
    return start.subarray(2 * sectorBytes).includes(biosBootPartition) ? "bios" : "uefi";
  }
  const hasCode = start.subarray(0, bootCodeBytes).some((byte) => byte !== 0);
  return hasCode && types[0] !== efiSystemType ? "bios" : "uefi";
}

async function readTables({ path, format, work, signal }: DiskFile): Promise<Buffer> {
  if (format === "raw") return readStart(path);
  const output = join(await mkdtemp(join(work, "tables-")), "start");
  const amounts = [`bs=${sectorBytes}`, `count=${tableSectors}`];
  await runTool("qemu-img", ["dd", "-f", "qcow2", "-O", "raw", ...amounts, `if=${path}`, `of=${output}`], {
    signal,
  });
  return readStart(output);
}

async function readStart(path: string): Promise<Buffer> {
  await using file = await open(path, "r");
  const start = Buffer.alloc(tableSectors * sectorBytes);
  await file.read(start, 0, start.length, 0);
  return start;
}
