/**
 * Writes a tree as an ext4 file system, without privilege: an empty one by mke2fs, then everything by a debugfs script.
 * The disk is as small as its content; a guest grows it to its own disk at boot (room for that is reserved). Equal
 * trees give equal bytes: identifiers, features, order and times are all fixed.
 */
import { rm, truncate, writeFile } from "node:fs/promises";
import { Fault, type Abortable } from "@cocoon/core";
import { writeDebugfsScript } from "./debugfs-script.ts";
import { computeTotals, type DirectoryNode } from "./file-tree.ts";
import { runTool } from "@cocoon/vm/host";

export interface Ext4Options extends Abortable {
  /** The file to make; must not exist. */
  readonly path: string;
  /** For scripts; must exist, and its path must hold no quotes or line breaks. */
  readonly workDirectory: string;
  /** Same identifier, same bytes. */
  readonly uuid: string;
  readonly maxBytes: number;
  readonly spareBytes?: number;
}

const blockBytes = 4096;
const mebibyte = 1024 * 1024;
const journalBytes = 4 * mebibyte;
const defaultSpareBytes = 4 * mebibyte;
const inodeBytes = 256;
/** Inodes come per 128 MiB of disk, in the number that the first such piece has: one per 16 KiB. */
const fewestInodes = 8192;
/** Room in the group table to grow to this size in place. */
const growableBlocks = (512 * 1024 * mebibyte) / blockBytes;

const features = [
  "has_journal",
  "ext_attr",
  "resize_inode",
  "dir_index",
  "filetype",
  "extent",
  "64bit",
  "flex_bg",
  "sparse_super",
  "large_file",
  "huge_file",
  "dir_nlink",
  "extra_isize",
  "metadata_csum",
];

/** Returns the size of the disk made. */
export async function writeExt4Disk(root: DirectoryNode, options: Ext4Options): Promise<number> {
  const totals = computeTotals(root, blockBytes);
  const inodes = Math.max(fewestInodes, totals.entries + 256);
  const sizeBytes = diskBytes(totals.contentBytes, inodes) + (options.spareBytes ?? defaultSpareBytes);
  if (sizeBytes > options.maxBytes) {
    throw new Fault(
      "invalid",
      `the image needs a disk of ${Math.ceil(sizeBytes / mebibyte)} MiB, more than the ${Math.floor(options.maxBytes / mebibyte)} MiB allowed`,
    );
  }
  try {
    await writeFile(options.path, "", { flag: "wx", mode: 0o600 });
    await truncate(options.path, sizeBytes);
    await makeFileSystem({ ...options, sizeBytes, inodes });
    await populate(root, options);
    await verify(options);
  } catch (error) {
    await rm(options.path, { force: true });
    throw error;
  }
  return sizeBytes;
}

function diskBytes(contentBytes: number, inodes: number): number {
  const needed = (contentBytes + inodes * inodeBytes + journalBytes) * 1.03;
  return Math.ceil(needed / mebibyte) * mebibyte;
}

/** Fixed time for the tools, and no host configuration. */
const toolEnvironment = { E2FSPROGS_FAKE_TIME: "1", MKE2FS_CONFIG: "/dev/null" };

async function makeFileSystem(
  options: Ext4Options & { readonly sizeBytes: number; readonly inodes: number },
): Promise<void> {
  const extended = [
    `hash_seed=${options.uuid}`,
    `resize=${growableBlocks}`,
    "lazy_itable_init=1",
    "lazy_journal_init=1",
    "nodiscard",
  ].join(",");
  const args = [
    ["-q", "-F", "-t", "ext4", "-b", String(blockBytes), "-I", String(inodeBytes)],
    ["-N", String(options.inodes), "-m", "1", "-U", options.uuid, "-L", "cocoon-root"],
    ["-O", `none,${features.join(",")}`, "-J", `size=${journalBytes / mebibyte}`, "-E", extended],
    [options.path],
  ].flat();
  await runTool("mke2fs", args, { signal: options.signal, env: toolEnvironment });
}

async function populate(root: DirectoryNode, options: Ext4Options): Promise<void> {
  const scriptPath = await writeDebugfsScript(root, options);
  const done = await runTool("debugfs", ["-w", "-f", scriptPath, options.path], {
    signal: options.signal,
    env: toolEnvironment,
    timeoutMs: 1_800_000,
    discardStdout: true,
  });
  // debugfs goes on after a command that failed and still ends with 0: what it says beside its banner is problem.
  const complaints = done.stderr.split("\n").filter((line) => line !== "" && !/^debugfs \d/.test(line));
  if (complaints.length === 0) return;
  const code = complaints.some((line) => /no space|could not allocate/i.test(line))
    ? "outOfSpace"
    : "internal";
  throw new Fault(code, `debugfs: ${complaints.slice(0, 3).join(" | ")}`);
}

/** A disk that its own checker does not like never leaves this place. */
async function verify(options: Ext4Options): Promise<void> {
  await runTool("e2fsck", ["-f", "-n", options.path], { signal: options.signal, timeoutMs: 600_000 });
}
