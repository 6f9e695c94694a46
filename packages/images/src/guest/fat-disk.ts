/**
 * Writes small read-only disks with a FAT12 file system: what cloud-init and our own boot program read their settings
 * from. A few files in the root directory, long names, fixed times; equal content gives equal bytes.
 *
 *   sector 0                boot sector with the volume label
 *   then                    two copies of the allocation table
 *   then                    root directory, 512 entries
 *   then                    clusters 2, 3, …
 */
import { Fault } from "@cocoon/core";

export interface FatDisk {
  /** At most 11 characters, upper case. */
  readonly label: string;
  /** Name in the root directory -> content. */
  readonly files: Readonly<Record<string, Uint8Array>>;
}

const sectorBytes = 512;
const rootEntries = 512;
const rootSectors = (rootEntries * 32) / sectorBytes;
const smallestDiskBytes = 1024 * 1024;
const largestContentBytes = 4 * 1024 * 1024;
/** One less than what would make it FAT16 for a reader, with some distance. */
const mostClusters = 4000;
/** 1980-01-01, the earliest date there is. */
const epochDate = 0x21;

interface Geometry {
  readonly sectorsPerCluster: number;
  readonly tableSectors: number;
  readonly totalSectors: number;
}

export function writeFatDisk(disk: FatDisk): Buffer {
  const files = Object.entries(disk.files).sort(([a], [b]) => (a < b ? -1 : 1));
  const geometry = chooseGeometry(files.map(([, content]) => content.length));
  const image = Buffer.alloc(geometry.totalSectors * sectorBytes);
  bootSector(disk.label, geometry).copy(image);
  const table = [0xff8, 0xfff];
  const directory = [labelEntry(disk.label)];
  const clusterBytes = geometry.sectorsPerCluster * sectorBytes;
  const dataStart = (1 + 2 * geometry.tableSectors + rootSectors) * sectorBytes;
  for (const [index, [name, content]] of files.entries()) {
    const clusters = Math.ceil(content.length / clusterBytes);
    const first = clusters === 0 ? 0 : table.length;
    image.set(content, dataStart + Math.max(0, first - 2) * clusterBytes);
    for (let left = clusters; left > 0; left -= 1) table.push(left === 1 ? 0xfff : table.length + 1);
    directory.push(
      ...longNameEntries(name, shortName(index)),
      fileEntry(shortName(index), { first, content }),
    );
  }
  if (directory.length > rootEntries) throw new Fault("invalid", "too many files for a seed disk");
  const packed = packTable(table);
  packed.copy(image, sectorBytes);
  packed.copy(image, (1 + geometry.tableSectors) * sectorBytes);
  Buffer.concat(directory).copy(image, (1 + 2 * geometry.tableSectors) * sectorBytes);
  return image;
}

function chooseGeometry(sizes: readonly number[]): Geometry {
  const contentBytes = sizes.reduce((sum, size) => sum + size, 0);
  if (contentBytes > largestContentBytes) {
    throw new Fault(
      "tooLarge",
      `the settings of a guest take ${contentBytes} bytes, more than ${largestContentBytes}`,
    );
  }
  for (let sectorsPerCluster = 1; ; sectorsPerCluster *= 2) {
    const clusterBytes = sectorsPerCluster * sectorBytes;
    const needed = sizes.reduce((sum, size) => sum + Math.ceil(size / clusterBytes), 0);
    const wanted = Math.max(needed, Math.floor((smallestDiskBytes - 32 * 1024) / clusterBytes));
    if (wanted > mostClusters) continue;
    const tableSectors = Math.ceil(((wanted + 2) * 1.5) / sectorBytes);
    const totalSectors = 1 + 2 * tableSectors + rootSectors + wanted * sectorsPerCluster;
    return { sectorsPerCluster, tableSectors, totalSectors };
  }
}

function bootSector(label: string, { sectorsPerCluster, tableSectors, totalSectors }: Geometry): Buffer {
  const sector = Buffer.alloc(sectorBytes);
  sector.set([0xeb, 0x3c, 0x90]); // jump, as readers expect one
  sector.write("COCOON  ", 3, "latin1");
  sector.writeUInt16LE(sectorBytes, 11);
  sector.writeUInt8(sectorsPerCluster, 13);
  sector.writeUInt16LE(1, 14); // reserved: this sector
  sector.writeUInt8(2, 16); // tables
  sector.writeUInt16LE(rootEntries, 17);
  sector.writeUInt16LE(totalSectors < 0x10000 ? totalSectors : 0, 19);
  sector.writeUInt8(0xf8, 21); // fixed disk
  sector.writeUInt16LE(tableSectors, 22);
  sector.writeUInt16LE(32, 24); // sectors per track and heads: of no use, but not 0
  sector.writeUInt16LE(2, 26);
  sector.writeUInt32LE(totalSectors < 0x10000 ? 0 : totalSectors, 32);
  sector.writeUInt8(0x80, 36);
  sector.writeUInt8(0x29, 38); // the next three fields are there
  sector.writeUInt32LE(0xc0c00001, 39);
  sector.write(label.padEnd(11), 43, "latin1");
  sector.write("FAT12   ", 54, "latin1");
  sector.set([0x55, 0xaa], 510);
  return sector;
}

/** Two entries of 12 bits in three bytes. */
function packTable(table: readonly number[]): Buffer {
  const packed = Buffer.alloc(Math.ceil(table.length / 2) * 3);
  for (let index = 0; index < table.length; index += 2) {
    const low = table[index] ?? 0;
    const high = table[index + 1] ?? 0;
    packed.set([low & 0xff, (low >> 8) | ((high & 0xf) << 4), high >> 4], (index / 2) * 3);
  }
  return packed;
}

function labelEntry(label: string): Buffer {
  const entry = Buffer.alloc(32);
  entry.write(label.padEnd(11), 0, "latin1");
  entry.writeUInt8(0x08, 11);
  entry.writeUInt16LE(epochDate, 24);
  return entry;
}

/** These are never shown: every file has a long name. */
function shortName(index: number): string {
  return `FILE${String(index).padStart(3, "0")}~`.padEnd(11);
}

function fileEntry(name: string, file: { readonly first: number; readonly content: Uint8Array }): Buffer {
  const entry = Buffer.alloc(32);
  entry.write(name, 0, "latin1");
  entry.writeUInt8(0x01, 11); // read-only
  for (const offset of [16, 18, 24]) entry.writeUInt16LE(epochDate, offset);
  entry.writeUInt16LE(file.first, 26);
  entry.writeUInt32LE(file.content.length, 28);
  return entry;
}

const charactersPerEntry = 13;
const characterOffsets = [1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30];

/** The last piece comes first; pieces are tied to the short name by its checksum. */
function longNameEntries(name: string, short: string): Buffer[] {
  const characters = [...Array(name.length).keys()].map((index) => name.charCodeAt(index));
  const count = Math.ceil(name.length / charactersPerEntry);
  if (count < 1 || count > 20) throw new Fault("invalid", `"${name}" is no name for a file on a seed disk`);
  if (name.length % charactersPerEntry !== 0) characters.push(0);
  const checksum = [...Buffer.from(short, "latin1")].reduce(
    (sum, byte) => (((sum & 1) << 7) + (sum >> 1) + byte) & 0xff,
    0,
  );
  return [...Array(count).keys()].reverse().map((piece) => {
    const entry = Buffer.alloc(32);
    entry.writeUInt8((piece + 1) | (piece === count - 1 ? 0x40 : 0), 0);
    entry.writeUInt8(0x0f, 11);
    entry.writeUInt8(checksum, 13);
    for (const [position, offset] of characterOffsets.entries()) {
      entry.writeUInt16LE(characters[piece * charactersPerEntry + position] ?? 0xffff, offset);
    }
    return entry;
  });
}
