/**
 * Files that never change once they have their name, and are shared by hard links: a user of one links it into
 * its own directory, and the last one to go frees it.
 */
import { execFile } from "node:child_process";
import { constants, copyFile, link, mkdir, open, rename, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { Fault, pathExists, syncDirectory, systemCode, toFault, type Abortable } from "@cocoon/core";
import { newId } from "@cocoon/vm/engine";

const run = promisify(execFile);

/** A second name for an immutable file; a copy where the file system is another one. */
export async function linkOrCopy(source: string, target: string): Promise<void> {
  try {
    await link(source, target);
  } catch (error) {
    if (systemCode(error) !== "EXDEV" && systemCode(error) !== "EPERM" && systemCode(error) !== "EMLINK")
      throw toFault(error, `cannot link ${source}`);
    await copySparsely(source, target);
  }
}

/** A copy that keeps holes, and shares blocks where the file system can. */
export async function copySparsely(source: string, target: string, options?: Abortable): Promise<void> {
  try {
    const signal = options ? { signal: options.signal } : {};
    await run("cp", ["--sparse=always", "--reflink=auto", "--", source, target], signal);
  } catch (error) {
    options?.signal.throwIfAborted();
    const text = error instanceof Error ? error.message : String(error);
    throw new Fault(/no space left/i.test(text) ? "outOfSpace" : "internal", `cannot copy ${source}`, {
      cause: error,
    });
  }
}

/** The empty file of that size in the directory; all users of one size share it. */
export async function emptyFile(directory: string, bytes: number): Promise<string> {
  const path = join(directory, `empty-${bytes}`);
  await makeOnce(path, async (temporary) => {
    await using file = await open(temporary, "wx", 0o600);
    await file.truncate(bytes);
  });
  return path;
}

/** A private copy of a file that belongs to the system, named by its size and time: an upgrade makes another one. */
export async function keptCopy(directory: string, source: string): Promise<string> {
  try {
    const { size, mtimeMs } = await stat(source);
    const name = `${source.replaceAll(/[^\w.]+/g, "_").slice(-100)}-${size}-${Math.trunc(mtimeMs)}`;
    const path = join(directory, name);
    await makeOnce(path, (temporary) => copyFile(source, temporary, constants.COPYFILE_FICLONE));
    return path;
  } catch (error) {
    throw toFault(error, `cannot read ${source}`);
  }
}

/** Makes a file under a temporary name and renames it: never seen half made, and harmless when done twice. */
async function makeOnce(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
  if (await pathExists(path)) return;
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const temporary = `${path}.${newId()}`;
  await make(temporary);
  await using file = await open(temporary, "r");
  await file.sync(); // the name must not survive a power cut that its content does not
  await rename(temporary, path);
  await syncDirectory(dirname(path));
}
