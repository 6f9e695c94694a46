/**
 * The demo image: Debian's busybox and bash on a small disk of its own, booted by the shared kernel and initramfs, which bring
 * network, SSH and the agent. Everything comes from Debian packages; about 20 MB in all.
 */
import { createHash } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { ensureBootBundle } from "../boot-bundle.ts";
import { writeExt4Disk } from "../ext4-disk.ts";
import { commitImage, type ImageContext } from "../image-files.ts";
import { noProgram, type ImageRecord } from "../image-record.ts";
import { requireTools } from "@cocoon/vm/host";
import { demoTree } from "./demo-tree.ts";

export const demoImageName = "cocoon-demo";

export interface BuiltinOptions extends Abortable {
  /** Look for newer Debian packages although an image is there. */
  readonly refresh?: boolean;
}

const recipeVersion = 5;
const maxDiskBytes = 256 * 1024 * 1024;
/** Fixed, so that equal content gives equal bytes. Guests tell their disks apart by serial, not by this. */
const diskUuid = "c0c00000-0000-4000-8000-000000000001";

/** Makes it at most once; afterwards it needs neither network nor tools. */
export async function ensureDemoRecord(context: ImageContext, options: BuiltinOptions): Promise<ImageRecord> {
  const { signal } = options;
  const { store } = context;
  await using _lock = await store.lock("pull-demo", options);
  const bundle = await ensureBootBundle({ ...options, store });
  const [busybox, bash] = await Promise.all([readFile(bundle.busyboxPath), readFile(bundle.bashPath)]);
  const hash = createHash("sha256").update(`demo ${recipeVersion}\0`).update(busybox).update(bash);
  const id = `sha256:${hash.digest("hex")}`;
  const known = await context.records.tryFind([demoImageName]);
  if (known?.id === id && (await store.has(known.disk.blob))) return known;
  await requireTools(["mke2fs", "debugfs", "e2fsck"], "making the demo disk");
  await using work = await store.openWork();
  const path = join(work.path, "disk");
  const root = await demoTree({ busybox, bash, work: work.path });
  const settings = { path, workDirectory: work.path, uuid: diskUuid, maxBytes: maxDiskBytes, signal };
  const virtualBytes = await writeExt4Disk(root, settings);
  const [kernel, initrd] = await Promise.all([stat(bundle.kernelPath), stat(bundle.initrdPath)]);
  return await commitImage(
    context,
    {
      name: demoImageName,
      id,
      type: "oci",
      os: "linux",
      boot: "bundle",
      disk: { path, format: "raw", virtualBytes },
      moreBytes: kernel.size + initrd.size,
      program: noProgram,
    },
    options,
  );
}
