/** Reading a file that may be large: two buffers, one filling from disk while the other goes out. */
import type { FileHandle } from "node:fs/promises";
import type { Writable } from "node:stream";
import { Fault } from "@cocoon/core";
import type { CopyOptions, OpenObject } from "./storage.ts";
import { writeTo } from "./write-to.ts";

const chunkBytes = 512 * 1024;
const spareBuffers: Buffer[] = [];
const maxSpareBuffers = 8;

export async function openFileObject(file: FileHandle): Promise<OpenObject | undefined> {
  const found = await file.stat();
  if (!found.isFile()) {
    await file.close();
    return undefined;
  }
  return {
    sizeBytes: found.size,
    copyTo: (sink, options) => copyFile({ file, sizeBytes: found.size }, sink, options),
    readAll: () => readWhole(file, found.size),
    [Symbol.asyncDispose]: () => file.close(),
  };
}

async function readWhole(file: FileHandle, sizeBytes: number): Promise<Buffer> {
  const buffer = Buffer.allocUnsafe(sizeBytes);
  await fill(file, buffer, 0);
  return buffer;
}

async function copyFile(
  { file, sizeBytes }: { file: FileHandle; sizeBytes: number },
  sink: Writable,
  { range, signal }: CopyOptions,
): Promise<void> {
  const end = range ? range.end + 1 : sizeBytes;
  let position = range?.start ?? 0;
  const buffers: [Buffer, Buffer] = [takeBuffer(), takeBuffer()];
  let turn: 0 | 1 = 0;
  let sent: Promise<void> = Promise.resolve();
  try {
    while (position < end) {
      const part = buffers[turn].subarray(0, Math.min(chunkBytes, end - position));
      await Promise.all([fill(file, part, position), sent]);
      signal.throwIfAborted();
      sent = writeTo(sink, part, signal);
      position += part.length;
      turn = turn === 0 ? 1 : 0;
    }
    await sent;
  } catch (error) {
    sent.catch(() => undefined); // the sink may hold the buffers for long: they are left to it, not given back
    throw error;
  }
  giveBack(buffers);
}

async function fill(file: FileHandle, buffer: Buffer, position: number): Promise<void> {
  let filled = 0;
  while (filled < buffer.length) {
    const { bytesRead } = await file.read(buffer, filled, buffer.length - filled, position + filled);
    if (bytesRead === 0) throw new Fault("internal", "a stored file is shorter than it was");
    filled += bytesRead;
  }
}

function takeBuffer(): Buffer {
  return spareBuffers.pop() ?? Buffer.allocUnsafeSlow(chunkBytes);
}

function giveBack(buffers: readonly Buffer[]): void {
  for (const buffer of buffers) if (spareBuffers.length < maxSpareBuffers) spareBuffers.push(buffer);
}
