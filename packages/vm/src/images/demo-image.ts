/**
 * The demo image: Debian's busybox on a small disk of its own, booted by the shared kernel and initramfs, which bring
 * network, SSH and the agent. Everything comes from Debian packages; about 20 MB in all.
 */
import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { BlobStore } from "./blob-store.ts";
import { ensureBootBundle, type BootBundle } from "./boot-bundle.ts";
import { demoTree } from "./demo-tree.ts";
import { writeExt4Disk } from "./ext4-disk.ts";
import { requireTools } from "./tools.ts";

export interface DemoImageOptions extends Abortable {
  /** Everything is kept here and found again. */
  readonly cacheDir: string;
  readonly onProgress?: (step: string) => void;
  /** Look for newer Debian packages although an image is there. */
  readonly refresh?: boolean;
}

export interface DemoImage {
  /** Raw, ext4; immutable: put an overlay on it. */
  readonly diskPath: string;
  readonly diskBytes: number;
  readonly bundle: BootBundle;
  readonly blobIds: readonly string[];
}

const recipeVersion = 1;
const maxDiskBytes = 256 * 1024 * 1024;
/** Fixed, so that equal content gives equal bytes. Guests tell their disks apart by serial, not by this. */
const diskUuid = "c0c00000-0000-4000-8000-000000000001";

/** Makes the image at most once; afterwards it needs neither network nor tools. */
export async function ensureDemoImage(options: DemoImageOptions): Promise<DemoImage> {
  const { signal } = options;
  const store = new BlobStore(options.cacheDir);
  const bundle = await ensureBootBundle({ ...options, store });
  const busybox = await readFile(bundle.busyboxPath);
  const key = createHash("sha256").update(`${recipeVersion}\0`).update(busybox).digest("hex").slice(0, 16);
  const make = async (work: string) => {
    options.onProgress?.("making the demo disk");
    await requireTools(["mke2fs", "debugfs", "e2fsck"], "making the demo disk");
    const disk = join(work, "disk");
    const root = await demoTree({ busybox, work });
    const settings = { path: disk, workDirectory: work, uuid: diskUuid, maxBytes: maxDiskBytes, signal };
    await writeExt4Disk(root, settings);
    return { outputs: { disk }, notes: { packages: bundle.packages } };
  };
  const build = await store.ensureBuild(`demo-${key}`, make, { signal });
  const diskHex = build.outputs["disk"] ?? "";
  const diskPath = store.blobPath(diskHex);
  const { size } = await stat(diskPath);
  return { diskPath, diskBytes: size, bundle, blobIds: [diskHex, ...bundle.blobIds] };
}
