/** What a VM's console has shown: a file that QEMU writes and we keep short. */
import { open, rename, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "@cocoon/core";
import { vmFile } from "../store/layout.ts";

/** The newest file may grow to this before it is cut; so much of its end is kept. */
const maxLogBytes = 4 * 1024 * 1024;
const keptLogBytes = 1024 * 1024;

/** What the console has shown, oldest first. */
export async function readConsoleHistory(directory: string, tailBytes: number): Promise<Buffer> {
  const newest = await readEnd(join(directory, vmFile.consoleLog), tailBytes);
  if (newest.length >= tailBytes) return newest;
  const older = await readEnd(join(directory, vmFile.olderConsoleLog), tailBytes - newest.length);
  return Buffer.concat([older, newest]);
}

async function readEnd(path: string, bytes: number): Promise<Buffer> {
  try {
    await using file = await open(path, "r");
    const { size } = await file.stat();
    const length = Math.min(size, bytes);
    const buffer = Buffer.alloc(length);
    const { bytesRead } = await file.read(buffer, 0, length, size - length);
    return buffer.subarray(0, bytesRead);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return Buffer.alloc(0);
    throw error;
  }
}

/** Cuts a log that has grown too long; QEMU appends, so that it goes on at the new end. */
export async function trimConsoleLog(directory: string): Promise<void> {
  const path = join(directory, vmFile.consoleLog);
  const size = await stat(path).then(
    (status) => status.size,
    () => 0,
  );
  if (size <= maxLogBytes) return;
  const older = join(directory, vmFile.olderConsoleLog);
  await writeFile(`${older}.new`, await readEnd(path, keptLogBytes), { mode: 0o600 });
  await rename(`${older}.new`, older);
  await truncate(path, 0);
}
