/**
 * What sandboxes start from: Debian with Python, git and curl and the users root and user (who may use sudo), on a disk of its own. The shared kernel and
 * initramfs boot it, and bring network, SSH and the agent: no systemd, so that it is up in seconds also under emulation.
 */
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { requireTools } from "@cocoon/vm/host";
import { ensureBootBundle } from "../boot-bundle.ts";
import { writeExt4Disk } from "../ext4-disk.ts";
import { commitImage, type ImageContext } from "../image-files.ts";
import { noProgram, type ImageRecord } from "../image-record.ts";
import { bootstrapDebian } from "./debian-root.ts";
import type { BuiltinOptions } from "./demo-image.ts";

export const baseImageName = "cocoon-base";

const recipe = "base-1";
const diskUuid = "c0c00000-0000-4000-8000-000000000004";
const spareBytes = 256 * 1024 * 1024;
const maxDiskBytes = 4 * 2 ** 30;

const packages = [
  ["bash", "ca-certificates", "curl", "git", "iproute2", "less", "make", "nano", "openssh-client"],
  ["procps", "python3", "python3-pip", "python3-venv", "sudo", "unzip", "xz-utils"],
].flat();

const finish = [
  'chroot "$1" useradd --create-home --shell /bin/bash --uid 1000 user',
  'echo "user ALL=(ALL:ALL) NOPASSWD: ALL" > "$1/etc/sudoers.d/user"',
  'chmod 0440 "$1/etc/sudoers.d/user"',
  'rm -rf "$1/var/lib/apt/lists" "$1/var/cache/apt"/*.bin "$1/etc/hostname"',
  'mkdir -p "$1/var/lib/apt/lists/partial" "$1/code" && chroot "$1" chown user:user /code',
  ': > "$1/etc/machine-id"',
].join(" && ");

/** Builds it once; `refresh` builds it again from newer packages. */
export async function ensureBaseRecord(context: ImageContext, options: BuiltinOptions): Promise<ImageRecord> {
  const { store } = context;
  const { signal } = options;
  await using _lock = await store.lock("pull-base", options);
  const known = await context.records.tryFind([baseImageName]);
  const isCurrent = known?.source?.validator === recipe && (await store.has(known.disk.blob));
  if (known && isCurrent && !options.refresh) return known;
  await requireTools(["mmdebstrap", "mke2fs", "debugfs", "e2fsck"], "building the base image");
  const bundle = await ensureBootBundle({ ...options, store });
  await using work = await store.openWork();
  const root = await bootstrapDebian({ work: work.path, packages, customizeHook: finish, signal });
  const path = join(work.path, "disk");
  const settings = { path, workDirectory: work.path, uuid: diskUuid, maxBytes: maxDiskBytes, spareBytes };
  const virtualBytes = await writeExt4Disk(root, { ...settings, signal });
  const [kernel, initrd] = await Promise.all([stat(bundle.kernelPath), stat(bundle.initrdPath)]);
  return await commitImage(
    context,
    {
      name: baseImageName,
      type: "oci",
      os: "linux",
      boot: "bundle",
      disk: { path, format: "raw", virtualBytes },
      moreBytes: kernel.size + initrd.size,
      program: noProgram,
      source: { url: baseImageName, validator: recipe },
    },
    options,
  );
}
