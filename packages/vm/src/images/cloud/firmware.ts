/**
 * Which firmware boots a disk. Disks made for both have boot code in their first sector; BIOS is then the faster way.
 * Those without (Windows, some newer images) need UEFI.
 */
import { mkdtemp, open, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { runTool } from "../tools.ts";

export interface DiskFile extends Abortable {
  readonly path: string;
  readonly format: "qcow2" | "raw";
  readonly work: string;
}

const sectorBytes = 512;
const bootCodeBytes = 440;

export async function detectFirmware(disk: DiskFile): Promise<"bios" | "uefi"> {
  const sector = await firstSector(disk);
  const isBootable = sector[510] === 0x55 && sector[511] === 0xaa;
  const hasCode = sector.subarray(0, bootCodeBytes).some((byte) => byte !== 0);
  return isBootable && hasCode ? "bios" : "uefi";
}

export async function firstSector({ path, format, work, signal }: DiskFile): Promise<Buffer> {
  if (format === "raw") return readStart(path);
  const directory = await mkdtemp(join(work, "sector-"));
  try {
    const output = join(directory, "sector");
    const source = ["-f", "qcow2", "-O", "raw", `bs=${sectorBytes}`, "count=1", `if=${path}`, `of=${output}`];
    await runTool("qemu-img", ["dd", ...source], { signal });
    return await readStart(output);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function readStart(path: string): Promise<Buffer> {
  const file = await open(path, "r");
  try {
    const sector = Buffer.alloc(sectorBytes);
    await file.read(sector, 0, sectorBytes, 0);
    return sector;
  } finally {
    await file.close();
  }
}
