/** Room on the disk of the platform: without it machines cannot hibernate, and the registry refuses pushes (507). */
import { existsSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import { partsDirectory } from "./parts/parts.ts";

const mebibyte = 2 ** 20;
/** etcd and the registry fail below this. */
const neededBytes = 256 * mebibyte;
/** A few machines of the default size need this to hibernate. */
const comfortableBytes = 2048 * mebibyte;

/** Throws when there is too little to start; returns a warning when there is little, "" otherwise. */
export function judgeFreeSpace(directory: string, freeBytes: number): string {
  const free = `the disk of ${directory} has ${Math.floor(freeBytes / mebibyte)} MiB free`;
  if (freeBytes < neededBytes)
    throw new Fault(
      "outOfSpace",
      `${free}; the registry and etcd need at least ${neededBytes / mebibyte} MiB. Free some space, or use another disk with --dir`,
    );
  return freeBytes < comfortableBytes
    ? `Warning: ${free}; machines may fail to hibernate (their memory and disks go to the registry there).`
    : "";
}

/** Of the platform and of its registry, whose storage may be on another disk. */
export async function warnLowSpace(directory: string): Promise<void> {
  const registry = join(partsDirectory(directory), "registry");
  let warning = ""; // one: a single disk usually holds both
  for (const each of [directory, registry].filter(existsSync)) {
    const { bavail, bsize } = await statfs(each);
    warning = judgeFreeSpace(each, bavail * bsize) || warning;
  }
  if (warning !== "") process.stderr.write(`${warning}\n`);
}
