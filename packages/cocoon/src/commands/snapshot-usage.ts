/** Disk that the snapshots of this host take, for `doctor`. */
import { lstat, readdir } from "node:fs/promises";
import { join } from "node:path";
import { systemCode } from "@cocoon/core";

/** Of the store below that root; nothing where there is none. Allocated bytes; what several snapshots share counts once. */
export async function readSnapshotUsage(
  rootDirectory: string,
): Promise<{ readonly count: number; readonly bytes: number }> {
  const directory = join(rootDirectory, "qemu", "snapshots");
  try {
    const entries = await readdir(directory, { recursive: true, withFileTypes: true });
    const inodes = new Map<number, number>();
    for (const { parentPath, name } of entries.filter((entry) => entry.isFile())) {
      const { ino, blocks } = await lstat(join(parentPath, name));
      inodes.set(ino, blocks * 512);
    }
    const count = entries.filter((entry) => entry.isDirectory() && entry.parentPath === directory).length;
    return { count, bytes: [...inodes.values()].reduce((sum, each) => sum + each, 0) };
  } catch (error) {
    if (systemCode(error) === "ENOENT") return { count: 0, bytes: 0 }; // no store, or removed at this moment
    throw error;
  }
}
