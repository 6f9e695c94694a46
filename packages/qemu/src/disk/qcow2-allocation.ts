/**
 * Which clusters a qcow2 file holds itself, read from its tables. This is how a merge of layers is proven: what the lower
 * layers hold must be in the tables of the top file on disk, whatever QEMU reports.
 *
 *   header → L1 table: one entry per L2 table → L2 table: one entry per cluster
 */
import { open, type FileHandle } from "node:fs/promises";
import { Fault } from "@cocoon/core";

const headerBytes = 104;
const entryBytes = 8;
const offsetMask = 0x00fffffffffffe00n;
const zeroFlag = 1n;
const compressedFlag = 1n << 62n;
/** Extended L2 entries, external data, compression type is fine; a file marked corrupt is not. */
const unsupportedFeatures = 0b1_0110n;
const maxL1Entries = 4 * 1024 * 1024;

interface Tables {
  readonly path: string;
  readonly file: FileHandle;
  readonly clusterBytes: number;
  readonly l1: Buffer;
}

/** How many clusters the lower files hold that the top one does not. `invalid` when a file cannot be judged. */
export async function countMissingClusters(top: string, lower: readonly string[]): Promise<number> {
  await using stack = new AsyncDisposableStack();
  const above = await openTables(top, stack);
  let missing = 0;
  for (const path of lower) {
    const below = await openTables(path, stack);
    if (below.clusterBytes !== above.clusterBytes)
      throw new Fault("invalid", `${path} and ${top} have clusters of different sizes`);
    for (let index = 0; index < below.l1.length / entryBytes; index += 1)
      missing += await countMissingIn(above, below, index);
  }
  return missing;
}

/** One L2 table of each. */
async function countMissingIn(above: Tables, below: Tables, index: number): Promise<number> {
  const wanted = await readL2(below, index);
  if (!wanted) return 0;
  const present = await readL2(above, index);
  let missing = 0;
  for (let at = 0; at < wanted.length; at += entryBytes)
    if (isAllocated(wanted.readBigUInt64BE(at)) && !(present && isAllocated(present.readBigUInt64BE(at))))
      missing += 1;
  return missing;
}

function isAllocated(entry: bigint): boolean {
  return (entry & (offsetMask | zeroFlag | compressedFlag)) !== 0n;
}

async function openTables(path: string, stack: AsyncDisposableStack): Promise<Tables> {
  const file = stack.use(await open(path, "r"));
  const header = await readExactly(file, { path, offset: 0, bytes: headerBytes });
  const version = header.readUInt32BE(4);
  if (header.toString("latin1", 0, 4) !== "QFI\u00fb" || (version !== 2 && version !== 3))
    throw new Fault("invalid", `${path} is not a qcow2 disk`);
  const clusterBits = header.readUInt32BE(20);
  const entries = header.readUInt32BE(36);
  const features = version === 3 ? header.readBigUInt64BE(72) : 0n;
  if (
    clusterBits < 9 ||
    clusterBits > 21 ||
    entries > maxL1Entries ||
    (features & unsupportedFeatures) !== 0n
  )
    throw new Fault("invalid", `${path} has a header that cannot be judged`);
  const offset = Number(header.readBigUInt64BE(40));
  const l1 = await readExactly(file, { path, offset, bytes: entries * entryBytes });
  return { path, file, clusterBytes: 2 ** clusterBits, l1 };
}

async function readL2({ path, file, clusterBytes, l1 }: Tables, index: number): Promise<Buffer | undefined> {
  if ((index + 1) * entryBytes > l1.length) return undefined;
  const offset = Number(l1.readBigUInt64BE(index * entryBytes) & offsetMask);
  return offset === 0 ? undefined : readExactly(file, { path, offset, bytes: clusterBytes });
}

async function readExactly(
  file: FileHandle,
  { path, offset, bytes }: { readonly path: string; readonly offset: number; readonly bytes: number },
): Promise<Buffer> {
  const buffer = Buffer.alloc(bytes);
  const { bytesRead } = await file.read(buffer, 0, bytes, offset);
  if (bytesRead !== bytes) throw new Fault("invalid", `${path} ends before its tables do`);
  return buffer;
}
