/**
 * Takes a file that should be a disk and finds out what it is: unpacked where it was packed, its format known by its first
 * bytes, checked before anything opens it.
 */
import { createReadStream, createWriteStream } from "node:fs";
import { open, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { Fault, toFault, type Abortable } from "@cocoon/core";
import { decompress, startsWith } from "@cocoon/oci";
import { checkQcow2, qcow2Magic } from "./qcow2-check.ts";
import { detectFirmware } from "./firmware.ts";

export interface CheckedDisk {
  readonly path: string;
  readonly format: "qcow2" | "raw";
  readonly virtualBytes: number;
  readonly firmware: "bios" | "uefi";
}

export interface CheckOptions extends Abortable {
  readonly work: string;
  readonly maxBytes: number;
}

export async function checkDisk(path: string, options: CheckOptions): Promise<CheckedDisk> {
  const plain = await unpacked(path, options);
  const head = await readHead(plain);
  const format = startsWith(head, qcow2Magic) ? "qcow2" : "raw";
  const virtualBytes = format === "qcow2" ? await checkQcow2(plain, options) : await checkRaw(plain, head);
  const firmware = await detectFirmware({ path: plain, format, work: options.work, signal: options.signal });
  return { path: plain, format, virtualBytes, firmware };
}

const gzipOrZstd = [Buffer.from([0x1f, 0x8b]), Buffer.from([0x28, 0xb5, 0x2f, 0xfd])];

async function unpacked(path: string, { work, signal, maxBytes }: CheckOptions): Promise<string> {
  const head = await readHead(path);
  if (!gzipOrZstd.some((magic) => startsWith(head, magic))) return path;
  const output = join(work, "unpacked");
  try {
    const source = decompress(createReadStream(path, { highWaterMark: 1024 * 1024 }));
    await pipeline(limitBytes(source, maxBytes), createWriteStream(output, { flags: "wx", mode: 0o600 }), {
      signal,
    });
  } catch (error) {
    await rm(output, { force: true });
    throw toFault(error);
  }
  return output;
}

/** Passes bytes on; `tooLarge` when there are more. */
export async function* limitBytes(source: AsyncIterable<Buffer>, maxBytes: number): AsyncGenerator<Buffer> {
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Fault("tooLarge", `the unpacked image is larger than ${maxBytes} bytes`);
    yield chunk;
  }
}

const sectorBytes = 512;

/** A raw disk has no magic of its own; one that boots has a partition table, or a boot sector, which ends like this. */
async function checkRaw(path: string, head: Buffer): Promise<number> {
  const { size } = await stat(path);
  if (head[510] !== 0x55 || head[511] !== 0xaa) {
    throw new Fault("invalid", "the file is neither a qcow2 image nor a bootable raw disk");
  }
  if (size % sectorBytes !== 0) {
    throw new Fault("invalid", `the raw disk is truncated: ${size} bytes are not whole sectors`);
  }
  return size;
}

async function readHead(path: string): Promise<Buffer> {
  await using file = await open(path, "r");
  const head = Buffer.alloc(sectorBytes);
  await file.read(head, 0, sectorBytes, 0);
  return head;
}
