/**
 * Looks at a qcow2 file before anything else does. A file from elsewhere must stand alone (a backing file or a data
 * file could name any file of this host), must not be encrypted, and must be whole: every table and cluster that it
 * names has to lie inside the file.
 */
import { open, type FileHandle } from "node:fs/promises";
import { Fault, type Abortable } from "@cocoon/core";

export const qcow2Magic = Buffer.from([0x51, 0x46, 0x49, 0xfb]);

const headerBytes = 104;
const maxVirtualBytes = 16 * 2 ** 40;
const maxL1Bytes = 32 * 2 ** 20;
const offsetMask = 0x00fffffffffffe00n;
const compressedFlag = 1n << 62n;
/** Feature bits that we understand: dirty (1) needs repair, external data (4) is refused, compression type (8), subclusters (16). */
const knownIncompatible = 0b11000n;

interface Header {
  readonly virtualBytes: number;
  readonly clusterBits: number;
  readonly l1Entries: number;
  readonly l1Offset: number;
}

/** Returns the virtual size. */
export async function checkQcow2(path: string, { signal }: Abortable): Promise<number> {
  await using file = await open(path, "r");
  const fileBytes = (await file.stat()).size;
  const header = await readHeader(file, fileBytes);
  await checkTables(file, { ...header, fileBytes, signal });
  return header.virtualBytes;
}

async function readHeader(file: FileHandle, fileBytes: number): Promise<Header> {
  const head = Buffer.alloc(headerBytes);
  const { bytesRead } = await file.read(head, 0, headerBytes, 0);
  if (bytesRead < 72 || !head.subarray(0, 4).equals(qcow2Magic)) throw bad("it is not a qcow2 file");
  const version = head.readUInt32BE(4);
  if (version !== 2 && version !== 3) throw bad(`its version ${version} is unknown`);
  if (head.readBigUInt64BE(8) !== 0n) throw bad("it needs a backing file: convert it to a standalone one");
  if (head.readUInt32BE(32) !== 0) throw bad("it is encrypted");
  if (version === 3) checkFeatures(head.readBigUInt64BE(72));
  const geometry = readGeometry(head);
  if (geometry.l1Offset + geometry.l1Entries * 8 > fileBytes) throw truncated();
  return geometry;
}

function readGeometry(head: Buffer): Header {
  const clusterBits = head.readUInt32BE(20);
  if (clusterBits < 9 || clusterBits > 21) throw bad(`its cluster size 2^${clusterBits} is out of range`);
  const virtualBytes = Number(head.readBigUInt64BE(24));
  if (virtualBytes === 0 || virtualBytes > maxVirtualBytes) {
    throw bad(`its size of ${virtualBytes} bytes is out of range`);
  }
  const l1Entries = head.readUInt32BE(36);
  const needed = Math.ceil(virtualBytes / 2 ** (2 * clusterBits - 3));
  if (l1Entries < needed || l1Entries * 8 > maxL1Bytes) throw bad("its first table has the wrong size");
  return { virtualBytes, clusterBits, l1Entries, l1Offset: Number(head.readBigUInt64BE(40)) };
}

function checkFeatures(incompatible: bigint): void {
  if (incompatible & 0b100n) throw bad("its data is in another file: convert it to a standalone one");
  if (incompatible & 0b11n) throw bad('it was not closed properly: repair it with "qemu-img check -r all"');
  if (incompatible & ~knownIncompatible) throw bad("it uses a feature that is unknown here");
}

async function checkTables(
  file: FileHandle,
  image: Header & { readonly fileBytes: number; readonly signal: AbortSignal },
): Promise<void> {
  const clusterBytes = 2 ** image.clusterBits;
  const l1 = Buffer.alloc(image.l1Entries * 8);
  await readExactly(file, l1, image.l1Offset);
  const l2 = Buffer.alloc(clusterBytes);
  for (let index = 0; index < image.l1Entries; index += 1) {
    image.signal.throwIfAborted();
    const offset = Number(l1.readBigUInt64BE(index * 8) & offsetMask);
    if (offset === 0) continue;
    if (offset + clusterBytes > image.fileBytes) throw truncated();
    await readExactly(file, l2, offset);
    for (let at = 0; at < clusterBytes; at += 8) {
      if (clusterEnd(l2.readBigUInt64BE(at), image.clusterBits) > image.fileBytes) throw truncated();
    }
  }
}

/** First byte after what the entry names, as far as the file must have it. */
function clusterEnd(entry: bigint, clusterBits: number): number {
  if (entry & compressedFlag) {
    // The last sector of the last compressed cluster may be cut where its data ends.
    const sizeBits = BigInt(clusterBits - 8);
    const offset = entry & ((1n << (62n - sizeBits)) - 1n);
    return Number(offset) + 1;
  }
  const offset = Number(entry & offsetMask);
  // The last cluster of a disk may be shorter in the file than it is by name.
  return offset === 0 ? 0 : offset + 512;
}

async function readExactly(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  const { bytesRead } = await file.read(buffer, 0, buffer.length, position);
  if (bytesRead < buffer.length) throw truncated();
}

function bad(why: string): Fault {
  return new Fault("invalid", `the disk image cannot be used: ${why}`);
}

function truncated(): Fault {
  return new Fault("invalid", "the disk image is truncated: it names data beyond its end; download it again");
}
