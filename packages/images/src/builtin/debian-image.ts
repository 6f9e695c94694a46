/**
 * A small Debian with systemd, cloud-init and an SSH server, made by mmdebstrap: a cloud image like those that others
 * publish (partition table, GRUB, one ext4 partition that grows at boot), with our agent already in it.
 */
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Fault } from "@cocoon/core";
import { agentPath, agentUnit } from "../guest/cloud-init.ts";
import { ensureGuestProgram } from "../guest/guest-program.ts";
import { checkDisk } from "../cloud/disk-file.ts";
import { writeExt4Disk } from "../ext4-disk.ts";
import { attributes, ensureDirectory, type DirectoryNode, type FileNode } from "../file-tree.ts";
import { commitImage, type ImageContext } from "../image-files.ts";
import type { ImageRecord } from "../image-record.ts";
import { requireTools, runTool } from "@cocoon/vm/host";
import { writeBootDisk } from "./boot-disk.ts";
import { bootstrapDebian } from "./debian-root.ts";
import type { BuiltinOptions } from "./demo-image.ts";

export const debianImageName = "cocoon-debian";

const recipe = "debian-3";
const diskUuid = "c0c00000-0000-4000-8000-000000000003";
const spareBytes = 128 * 1024 * 1024;
const maxDiskBytes = 4 * 2 ** 30;

const packages = [
  ["systemd-sysv", "systemd-resolved", "udev", "dbus", "iproute2", "openssh-server"],
  ["cloud-init", "cloud-guest-utils", "linux-image-cloud-amd64", "initramfs-tools", "zstd"],
  ["grub-pc-bin", "grub-common"],
].flat();

const grubModules = ["biosdisk", "part_msdos", "ext2", "linux", "normal", "serial", "terminal"];

const grubConfig = `serial --unit=0 --speed=115200
terminal_output serial
set root=(hd0,msdos1)
linux /vmlinuz root=/dev/vda1 rw console=ttyS0 net.ifnames=0 reboot=t panic=-1 quiet
initrd /initrd.img
boot
`;

/** Builds it once; `refresh` builds it again from newer packages. */
export async function ensureDebianRecord(
  context: ImageContext,
  options: BuiltinOptions,
): Promise<ImageRecord> {
  const { store } = context;
  const { signal } = options;
  await using _lock = await store.lock("pull-debian", options);
  const known = await context.records.tryFind([debianImageName]);
  const isCurrent = known?.source?.validator === recipe && (await store.has(known.disk.blob));
  if (known && isCurrent && !options.refresh) return known;
  await requireTools(["mmdebstrap", "mke2fs", "debugfs", "e2fsck", "qemu-img"], "building the Debian image");
  await using work = await store.openWork();
  const root = await bootstrapDebian({
    work: work.path,
    packages,
    essentialHook: slimInitramfs,
    customizeHook: finish,
    env: { COCOON_GRUB_CONFIG: grubConfig },
    signal,
  });
  await addOurs(root, { work: work.path, program: await ensureGuestProgram({ store, signal }) });
  const path = await makeDisk(root, { work: work.path, signal });
  const disk = await checkDisk(path, { work: work.path, signal, maxBytes: context.maxDiskBytes });
  const source = { url: debianImageName, validator: recipe };
  return await commitImage(
    context,
    { name: debianImageName, type: "cloudimg", os: "linux", boot: disk.firmware, disk, source },
    options,
  );
}

/** Before the kernel is installed: an initramfs with the drivers of our machines only boots faster. */
const slimInitramfs = [
  'mkdir -p "$1/etc/initramfs-tools/conf.d"',
  'echo MODULES=list > "$1/etc/initramfs-tools/conf.d/cocoon"',
  'printf "virtio_pci\\nvirtio_blk\\n" > "$1/etc/initramfs-tools/modules"',
].join(" && ");

/** Nothing in a small machine needs these, and under emulation each costs seconds of its boot. */
const masked = [
  [
    "apt-daily.timer",
    "apt-daily-upgrade.timer",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
  ],
  ["dev-hugepages.mount", "dev-mqueue.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount"],
  ["sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "proc-sys-fs-binfmt_misc.automount"],
  [
    "modprobe@.service",
    "systemd-binfmt.service",
    "systemd-pcrphase.service",
    "systemd-pcrphase-sysinit.service",
  ],
  ["systemd-update-utmp.service", "getty@tty1.service"],
].flat();

/** At the end, inside: the boot loader as one file, services, and no identity of its own. */
const finish = [
  'mkdir -p "$1/boot/grub"',
  'printf "%s" "$COCOON_GRUB_CONFIG" > "$1/boot/grub/early.cfg"',
  `chroot "$1" grub-mkimage -O i386-pc -p "(hd0,msdos1)/boot/grub" -c /boot/grub/early.cfg -o /boot/grub/core.img ${grubModules.join(" ")}`,
  'chroot "$1" systemctl enable systemd-networkd systemd-resolved',
  `chroot "$1" systemctl mask ${masked.join(" ")}`,
  'echo "/dev/vda1 / ext4 discard,noinit_itable 0 0" > "$1/etc/fstab"',
  'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/resolv.conf" "$1/etc/hostname"',
  'ln -s /run/systemd/resolve/stub-resolv.conf "$1/etc/resolv.conf"',
  ': > "$1/etc/machine-id"',
].join(" && ");

interface Work {
  readonly work: string;
  readonly signal: AbortSignal;
}

const unitName = "cocoon-agent.service";
/** Settings come from the seed disk and from nowhere else; of cloud-init's many steps these are used. */
const cloudConfig = {
  datasource_list: ["NoCloud", "None"],
  cloud_init_modules: [
    ["bootcmd", "write-files", "growpart", "resizefs", "set_hostname", "update_etc_hosts"],
    ["users-groups", "ssh"],
  ].flat(),
  cloud_config_modules: ["mounts", "set-passwords", "runcmd"],
  cloud_final_modules: ["scripts-user", "final-message"],
  // An RSA key takes half a minute to find under emulation.
  ssh_genkeytypes: ["ed25519"],
  ssh: { emit_keys_to_console: false },
};

/** The agent, and how cloud-init should go about its work. */
async function addOurs(
  root: DirectoryNode,
  { work, program }: { readonly work: string; readonly program: string },
): Promise<void> {
  const put = (path: string, node: FileNode) => {
    const names = path.split("/").filter(Boolean);
    ensureDirectory(root, names.slice(0, -1)).children.set(names.at(-1) ?? "", node);
  };
  const text = async (name: string, content: string): Promise<FileNode> => {
    const spoolPath = join(work, name);
    await writeFile(spoolPath, content);
    return { kind: "file", attributes: attributes(0o644), spoolPath, sizeBytes: Buffer.byteLength(content) };
  };
  const { length } = await readFile(program);
  put(agentPath, { kind: "file", attributes: attributes(0o755), spoolPath: program, sizeBytes: length });
  put(`etc/systemd/system/${unitName}`, await text("agent-unit", agentUnit));
  put("etc/cloud/cloud.cfg.d/90-cocoon.cfg", await text("cloud-config", `${JSON.stringify(cloudConfig)}\n`));
  ensureDirectory(root, ["etc", "systemd", "system", "sysinit.target.wants"]).children.set(unitName, {
    kind: "symlink",
    attributes: attributes(0o777),
    target: `/etc/systemd/system/${unitName}`,
  });
}

async function makeDisk(root: DirectoryNode, { work, signal }: Work): Promise<string> {
  const partition = join(work, "partition");
  await writeExt4Disk(root, {
    path: partition,
    workDirectory: work,
    uuid: diskUuid,
    maxBytes: maxDiskBytes,
    spareBytes,
    signal,
  });
  const raw = join(work, "disk.raw");
  await writeBootDisk({
    path: raw,
    partition,
    bootImage: await readFile(readSpool(root, "usr/lib/grub/i386-pc/boot.img")),
    coreImage: await readFile(readSpool(root, "boot/grub/core.img")),
    signal,
  });
  const disk = join(work, "disk.qcow2");
  const formats = ["-f", "raw", "-O", "qcow2", "-c", "-o", "compression_type=zstd"];
  await runTool("qemu-img", ["convert", ...formats, raw, disk], { signal, timeoutMs: 1_800_000 });
  return disk;
}

function readSpool(root: DirectoryNode, path: string): string {
  const names = path.split("/");
  const node = ensureDirectory(root, names.slice(0, -1)).children.get(names.at(-1) ?? "");
  if (node?.kind !== "file" || !node.spoolPath)
    throw new Fault("unavailable", `Debian's packages lack ${path}`);
  return node.spoolPath;
}
