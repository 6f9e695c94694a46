/**
 * A disk that a BIOS boots, put together without privilege: GRUB's first stage in the partition table's sector, the
 * second in the gap behind it, one partition.
 *
 *   sector 0        boot.img, partition table
 *   sector 1…       core.img (boot.img expects it there)
 *   sector 2048…    the partition
 */
import { open, type FileHandle } from "node:fs/promises";
import { Fault, type Abortable } from "@cocoon/core";

export interface BootDisk extends Abortable {
  readonly path: string;
  readonly partition: string;
  readonly bootImage: Buffer;
  readonly coreImage: Buffer;
}

const sectorBytes = 512;
const firstSector = 2048;
const bootCodeBytes = 440;
const linuxPartition = 0x83;
const chunkBytes = 1024 * 1024;

export async function writeBootDisk(disk: BootDisk): Promise<void> {
  if (disk.coreImage.length > (firstSector - 1) * sectorBytes) {
    throw new Fault(
      "invalid",
      `the boot loader has ${disk.coreImage.length} bytes: it does not fit before the partition`,
    );
  }
  await using source = await open(disk.partition, "r");
  await using target = await open(disk.path, "wx", 0o600);
  const { size } = await source.stat();
  await target.truncate(firstSector * sectorBytes + size);
  const table = partitionTable(disk.bootImage, Math.ceil(size / sectorBytes));
  await target.write(table, 0, table.length, 0);
  await target.write(disk.coreImage, 0, disk.coreImage.length, sectorBytes);
  await copySparse(source, target, disk);
}

function partitionTable(bootImage: Buffer, sectors: number): Buffer {
  const table = Buffer.alloc(sectorBytes);
  bootImage.copy(table, 0, 0, bootCodeBytes);
  table.writeUInt32LE(0xc0c00003, bootCodeBytes); // disk signature
  const entry = table.subarray(446, 462);
  entry.writeUInt8(0x80, 0); // active
  entry.set([0xfe, 0xff, 0xff], 1); // "see the sector numbers"
  entry.writeUInt8(linuxPartition, 4);
  entry.set([0xfe, 0xff, 0xff], 5);
  entry.writeUInt32LE(firstSector, 8);
  entry.writeUInt32LE(sectors, 12);
  table.set([0x55, 0xaa], 510);
  return table;
}

async function copySparse(source: FileHandle, target: FileHandle, { signal }: Abortable): Promise<void> {
  const buffer = Buffer.alloc(chunkBytes);
  const zeros = Buffer.alloc(chunkBytes);
  for (let at = 0; ; at += chunkBytes) {
    signal.throwIfAborted();
    const { bytesRead } = await source.read(buffer, 0, chunkBytes, at);
    if (bytesRead === 0) return;
    if (buffer.compare(zeros, 0, bytesRead, 0, bytesRead) === 0) continue;
    await target.write(buffer, 0, bytesRead, firstSector * sectorBytes + at);
  }
}
