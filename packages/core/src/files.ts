/** Files that are either the old or the new version after a crash, never something in between. */
import { randomBytes } from "node:crypto";
import { mkdir, open, readFile, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemCode } from "./fault.ts";

export interface WriteFileOptions {
  readonly mode?: number;
  /** Make the promise survive a power cut, not only a crash of the process. Default true. */
  readonly sync?: boolean;
}

/** Writes to a temporary file beside the target, flushes it and renames it into place. */
export async function writeFileAtomically(
  path: string,
  content: string | Uint8Array,
  options: WriteFileOptions = {},
): Promise<void> {
  const directory = dirname(path);
  await mkdir(directory, { recursive: true });
  const temporary = join(directory, `.${randomBytes(6).toString("hex")}.tmp`);
  try {
    const file = await open(temporary, "wx", options.mode ?? 0o644);
    try {
      await file.writeFile(content);
      if (options.sync ?? true) await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  if (options.sync ?? true) await syncDirectory(directory);
}

/** A rename is on disk only once its directory is. */
export async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** The file's text, or undefined when there is no such file. Any other failure is thrown. */
export async function tryReadFile(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (systemCode(error) === "ENOENT") return undefined;
    throw error;
  }
}
