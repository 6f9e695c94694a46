/** Makes a bootable root disk of a container image's layers: unpacked into a tree, written as ext4. */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { decompress } from "@cocoon/oci";
import { writeExt4Disk } from "../ext4-disk.ts";
import { emptyDirectory, ensureDirectory, type DirectoryNode } from "../file-tree.ts";
import { requireTools } from "@cocoon/vm/host";
import { applyLayer } from "./apply-layer.ts";
import { readLayer, spoolNames, type ContainerLimits } from "./layer.ts";

export interface ContainerDiskOptions extends Abortable {
  /** Layers as they are stored, packed or not; lowest first. Each is read once. */
  readonly layers: Iterable<AsyncIterable<Buffer>>;
  readonly work: string;
  readonly path: string;
  readonly limits: ContainerLimits;
}

export const defaultContainerLimits: ContainerLimits = { maxEntries: 2_000_000, maxBytes: 64 * 2 ** 30 };

/** Where a guest mounts things; an image need not have them. */
const mountPoints = ["dev", "proc", "sys", "run", "tmp"];
const diskUuid = "c0c00000-0000-4000-8000-000000000002";

/** Returns the size of the disk. */
export async function makeContainerDisk(options: ContainerDiskOptions): Promise<number> {
  const { signal, work, limits } = options;
  await requireTools(["mke2fs", "debugfs", "e2fsck"], "making a disk of a container image");
  const spool = join(work, "spool");
  await mkdir(spool);
  const nextSpoolPath = spoolNames(spool);
  let root: DirectoryNode = emptyDirectory();
  for (const layer of options.layers) {
    root = applyLayer(root, await readLayer(decompress(layer), { signal, nextSpoolPath, limits }));
  }
  for (const name of mountPoints) {
    // A link is left alone: /tmp may well point to /var/tmp.
    if (!root.children.has(name)) ensureDirectory(root, [name]);
  }
  const settings = {
    path: options.path,
    workDirectory: work,
    uuid: diskUuid,
    maxBytes: limits.maxBytes,
    signal,
  };
  return writeExt4Disk(root, settings);
}
