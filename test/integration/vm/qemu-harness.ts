/** The QEMU backend with real guests, over a store of the test's own. The demo image is built once and kept. */
import { chmod, readFile, readdir, readlink } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork, type QemuOptions } from "@cocoon/qemu";
import type { Vm, VmRuntime } from "@cocoon/vm";
import type { RuntimeHarness } from "@cocoon/vm/testing";

const mebibyte = 1024 * 1024;

export function imageDirectory(): string {
  return join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cocoon", "test-images");
}

export type QemuHarnessOptions = Abortable &
  Pick<QemuOptions, "readPages" | "runAs" | "lazy" | "cgroupParent" | "bootSilenceMs" | "allowHostLoopback">;

/** A runtime over a store that others may use as well. */
export async function openQemuRuntimeIn(root: string, options: QemuHarnessOptions): Promise<VmRuntime> {
  const user = await openUserNetwork({
    directory: join(root, "network"),
    ...(options.runAs ? { firstFreePort: 1024 } : {}), // QEMU listens, and it is not root then
  });
  return openQemuRuntime({
    rootDirectory: root,
    images: openImageLibrary({ directory: imageDirectory() }),
    networks: new Map([["user", user]]),
    path: process.env["PATH"] ?? "",
    ...options,
  });
}

export async function openQemuHarness(
  options: QemuHarnessOptions,
): Promise<RuntimeHarness & { root: string }> {
  const { signal } = options;
  const directory = await temporaryDirectory();
  if (options.runAs) await chmod(directory.path, 0o711);
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  const open = () => openQemuRuntimeIn(directory.path, options);
  const runtime = await open();
  return {
    root: directory.path,
    runtime,
    image: demoImageName,
    small: { cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte },
    reopen: open,
    kill: killVm,
    leftovers: () => leftoversIn(directory.path),
    [Symbol.asyncDispose]: async () => {
      // What a failed test left running must not outlive it.
      for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
      await runtime[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

/** Everything that VMs and snapshots leave in a store, and processes whose VM is gone. */
export async function leftoversIn(root: string, network = "network"): Promise<readonly string[]> {
  const folders = ["vms", "names", "changes", "snapshots", "snapshot-names", "work", "trash"];
  const files = await Promise.all(
    folders.map(async (folder) =>
      (await readdir(join(root, "qemu", folder))).map((name) => `${folder}/${name}`),
    ),
  );
  const addresses = (await readdir(join(root, network))).filter((name) => name.startsWith("127."));
  return [...files.flat(), ...addresses.map((name) => `network/${name}`), ...(await qemuProcessesIn(root))];
}

/** QEMU processes that work in that store, by what they are called. */
export async function qemuProcessesIn(root: string): Promise<readonly string[]> {
  const found = await Promise.all(
    (await readdir("/proc"))
      .filter((name) => /^\d+$/.test(name))
      .map(async (pid) => {
        const cwd = await readlink(`/proc/${pid}/cwd`).catch(() => "");
        const command = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
        const id = /\0guest=([A-Z2-7]{26}),/.exec(command)?.[1];
        return cwd.startsWith(root) && id ? [`process ${id}`] : [];
      }),
  );
  return found.flat();
}

export async function killVm({ pid }: Vm): Promise<void> {
  if (pid === undefined) return;
  process.kill(pid, "SIGKILL");
  while (isThere(pid)) await new Promise((resolve) => setTimeout(resolve, 5));
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
