/**
 * The kernel and the initramfs that guests without a boot loader of their own start with: Debian's cloud kernel, its
 * virtio drivers, and the toolkit (our init and agent, busybox, an SSH server with its libraries).
 *
 *   /init                      cocoon-guest, as `boot`
 *   /modules                   drivers to load, in order; the files are in /lib/modules
 *   /cocoon/bin/cocoon-guest   /cocoon becomes /run/cocoon of the guest
 *   /cocoon/bin/busybox  dhcp-event  dropbear  dropbearkey
 *   /cocoon/lib/ld.so *.so.*
 */
import { createHash } from "node:crypto";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { constants, zstdCompressSync } from "node:zlib";
import { Fault, type Abortable } from "@cocoon/core";
import * as z from "zod";
import { ensureGuestProgram, guestProgramKey } from "./guest/guest-program.ts";
import type { BlobStore } from "./blob-store.ts";
import { directoryMode, executableMode, fileMode, symlinkMode, writeCpio, type CpioEntry } from "./cpio.ts";
import { fetchDebianPackages, resolveMetapackage, type DebianPackage } from "./debian-packages.ts";
import { withInterpreter } from "./elf-interpreter.ts";
import { collectModules } from "./kernel-modules.ts";

export interface BootBundle {
  readonly kernelPath: string;
  readonly initrdPath: string;
  /** The static busybox that is also in the toolkit, and a static bash for the demo image. */
  readonly busyboxPath: string;
  readonly bashPath: string;
  /** Words for the kernel; consoles are the machine's business. */
  readonly commandLine: string;
  readonly packages: readonly DebianPackage[];
  readonly blobIds: readonly string[];
}

export interface BootBundleOptions extends Abortable {
  readonly store: BlobStore;
  readonly refresh?: boolean;
}

/** Changes whenever the same packages would give another bundle. */
const recipeVersion = 1;

const kernelMetapackage = "linux-image-cloud-amd64";
const libraries = ["libc6", "libcrypt1", "libgmp10", "libtomcrypt1", "libtommath1", "zlib1g"];
const programPackages = ["bash-static", "busybox-static", "dropbear-bin"];

const modules = [
  ["virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "virtio_rng"],
  ["vfat", "nls_cp437", "nls_ascii", "evdev", "button", "vmw_vsock_virtio_transport"],
  ["tcp_diag"], // ends connections of an address that the machine loses
].flat();

const toolkitLoader = "/run/cocoon/lib/ld.so";

/**
 * `reboot=t`: the fastest way that works on every machine type. `panic=-1`: a guest that cannot go on restarts
 * instead of standing still. `quiet`: a serial console is slow. `no_timer_check`: the probe of the timer hangs now and then
 * in emulation, and every clock that machines have works.
 */
const commandLine = "reboot=t panic=-1 quiet no_timer_check net.ifnames=0 random.trust_cpu=on";

/** What exists is used, without the network, until the recipe changes or `refresh` is set. */
export async function ensureBootBundle(options: BootBundleOptions): Promise<BootBundle> {
  const { store, signal } = options;
  const name = `boot-${await recipeKey()}`;
  const current = options.refresh ? undefined : await store.tryCurrent(name);
  if (current) return readBundle(store, current.build);
  const kernel = await resolveMetapackage(kernelMetapackage, /linux-image-[0-9][^ ,]*-cloud-amd64/, {
    signal,
    aptDirectory: store.aptDirectory,
  });
  const key = `${name}-${kernel}`;
  const make = (work: string) => makeBundle(kernel, { ...options, work });
  const build = await store.ensureBuild(key, make, { signal });
  await store.setCurrent(name, key);
  return readBundle(store, build);
}

/** Keys of the builds that garbage collection must leave. */
export async function bootBuildKeys(store: BlobStore): Promise<string[]> {
  const current = await store.tryCurrent(`boot-${await recipeKey()}`);
  return [...(current ? [current.key] : []), await guestProgramKey()];
}

async function recipeKey(): Promise<string> {
  const parts = [recipeVersion, modules, libraries, programPackages, await guestProgramKey()];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}

const notesSchema = z.object({
  packages: z.array(z.object({ name: z.string(), version: z.string(), sha256: z.string() })),
});

function readBundle(
  store: BlobStore,
  build: { readonly outputs: Readonly<Record<string, string>>; readonly notes: unknown },
): BootBundle {
  const { kernel, initrd, busybox, bash } = build.outputs;
  if (!kernel || !initrd || !busybox || !bash)
    throw new Fault("internal", "the boot bundle's note is incomplete");
  return {
    kernelPath: store.blobPath(kernel),
    initrdPath: store.blobPath(initrd),
    busyboxPath: store.blobPath(busybox),
    bashPath: store.blobPath(bash),
    commandLine,
    packages: notesSchema.parse(build.notes).packages,
    blobIds: [kernel, initrd, busybox, bash],
  };
}

async function makeBundle(
  kernel: string,
  options: BootBundleOptions & { readonly work: string },
): Promise<{ outputs: Record<string, string>; notes: Record<string, unknown> }> {
  const { store, signal, work } = options;
  const guestProgram = await readFile(await ensureGuestProgram({ store, signal }));
  const fetched = await fetchDebianPackages([kernel, ...programPackages, ...libraries], {
    signal,
    directory: join(work, "packages"),
    aptDirectory: store.aptDirectory,
  });
  const entries = await initramfsEntries(fetched.root, { guestProgram, kernel });
  const archive = zstdCompressSync(writeCpio(entries), {
    params: { [constants.ZSTD_c_compressionLevel]: 19 },
  });
  const initrd = join(work, "initrd");
  await writeFile(initrd, archive);
  const release = kernel.slice("linux-image-".length);
  return {
    outputs: {
      kernel: join(fetched.root, "boot", `vmlinuz-${release}`),
      initrd,
      busybox: join(fetched.root, "bin", "busybox"),
      bash: join(fetched.root, "bin", "bash-static"),
    },
    notes: { packages: fetched.packages },
  };
}

async function initramfsEntries(
  root: string,
  { guestProgram, kernel }: { readonly guestProgram: Buffer; readonly kernel: string },
): Promise<CpioEntry[]> {
  const directory = (path: string): CpioEntry => ({ path, mode: directoryMode });
  const executable = (path: string, content: Uint8Array): CpioEntry => ({
    path,
    mode: executableMode,
    content,
  });
  const release = kernel.slice("linux-image-".length);
  const drivers = await collectModules(join(root, "lib", "modules", release), modules);
  const withLoader = async (path: string) => withInterpreter(await readFile(join(root, path)), toolkitLoader);
  return [
    // Before devtmpfs is mounted the kernel opens the console for us, if it exists.
    directory("dev"),
    executable("init", guestProgram),
    directory("lib"),
    directory("lib/modules"),
    ...drivers.map(({ fileName, content }) => ({ path: `lib/modules/${fileName}`, mode: fileMode, content })),
    {
      path: "modules",
      mode: fileMode,
      content: Buffer.from(drivers.map(({ fileName }) => `/lib/modules/${fileName}\n`).join("")),
    },
    directory("cocoon"),
    directory("cocoon/bin"),
    executable("cocoon/bin/cocoon-guest", guestProgram),
    { path: "cocoon/bin/dhcp-event", mode: symlinkMode, content: Buffer.from("cocoon-guest") },
    executable("cocoon/bin/busybox", await readFile(join(root, "bin", "busybox"))),
    executable("cocoon/bin/dropbear", await withLoader("usr/sbin/dropbear")),
    executable("cocoon/bin/dropbearkey", await withLoader("usr/bin/dropbearkey")),
    directory("cocoon/lib"),
    ...(await libraryEntries(root)),
  ];
}

/** The C library alone has a hundred files; the SSH server needs these. */
const neededLibraries =
  /^(?<name>ld-linux-x86-64\.so\.2|lib(?:c\.so\.6|crypt\.so\.1|gmp\.so\.10|tomcrypt\.so\.1|tommath\.so\.1|z\.so\.1))$/;

async function libraryEntries(root: string): Promise<CpioEntry[]> {
  const entries: CpioEntry[] = [];
  for (const directory of ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"]) {
    for (const file of (await readdir(join(root, directory))).sort()) {
      const name = neededLibraries.exec(file)?.groups?.["name"];
      if (!name) continue;
      const path = `cocoon/lib/${name.startsWith("ld-") ? basename(toolkitLoader) : name}`;
      entries.push({ path, mode: executableMode, content: await readFile(join(root, directory, file)) });
    }
  }
  if (entries.length !== 7) {
    throw new Fault("unavailable", `found ${entries.length} of the 7 libraries that the SSH server needs`);
  }
  return entries;
}
