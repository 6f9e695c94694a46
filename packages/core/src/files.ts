/** Files that are either the old or the new version after a crash, never something in between. */
import { randomBytes } from "node:crypto";
import { access, mkdir, open, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type * as z from "zod";
import { Fault, systemCode } from "./fault.ts";

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

/** The result, or undefined when the file or a directory on the way does not exist. Any other failure is thrown. */
export async function ignoreMissing<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "")) return undefined;
    throw error;
  }
}

export function tryReadFile(path: string): Promise<string | undefined> {
  return ignoreMissing(readFile(path, "utf8"));
}

export async function pathExists(path: string): Promise<boolean> {
  return (await ignoreMissing(stat(path))) !== undefined;
}

/** Whether this process may use the file in that way (`constants.X_OK`, …). */
export function isAccessible(path: string, mode: number): Promise<boolean> {
  return access(path, mode).then(
    () => true,
    () => false,
  );
}

/** The file's content by its schema; undefined when there is no such file. Other content counts as none without `fix`. */
export async function tryReadJson<T>(
  path: string,
  schema: z.ZodType<T>,
  fix?: string,
): Promise<T | undefined> {
  const text = await tryReadFile(path);
  if (text === undefined) return undefined;
  const parsed = schema.safeParse(tryParseJson(text));
  if (parsed.success || fix === undefined) return parsed.data;
  throw new Fault("invalid", `${path} is damaged; ${fix}`, { cause: parsed.error });
}

/** The value, or undefined when the text is not JSON: a schema then refuses it. */
export function tryParseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
