/** The QEMU backend with real guests, over a store of the test's own. The demo image is built once and kept. */
import { readdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import type { Abortable } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import {
  demoImageName,
  openImageLibrary,
  openQemuRuntime,
  openUserNetwork,
  type VmRuntime,
} from "@cocoon/vm";
import type { RuntimeHarness } from "@cocoon/vm/testing";

const mebibyte = 1024 * 1024;

export function imageDirectory(): string {
  return join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cocoon", "test-images");
}

export interface QemuHarnessOptions extends Abortable {
  readonly readPages?: boolean;
}

export async function openQemuHarness(
  options: QemuHarnessOptions,
): Promise<RuntimeHarness & { root: string }> {
  const { signal } = options;
  const directory = await temporaryDirectory();
  const images = openImageLibrary({ directory: imageDirectory() });
  await images.pull(demoImageName, { signal });
  const open = async (): Promise<VmRuntime> => {
    const user = await openUserNetwork({ directory: join(directory.path, "network") });
    return openQemuRuntime({
      rootDirectory: directory.path,
      images,
      networks: new Map([["user", user]]),
      path: process.env["PATH"] ?? "",
      accelerator: "auto",
      ...(options.readPages === undefined ? {} : { readPages: options.readPages }),
      signal,
    });
  };
  const runtime = await open();
  return {
    root: directory.path,
    runtime,
    image: demoImageName,
    small: { cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte },
    reopen: open,
    kill: async (vm) => {
      if (vm.pid !== undefined) process.kill(vm.pid, "SIGKILL");
      while (vm.pid !== undefined && isThere(vm.pid)) await new Promise((resolve) => setTimeout(resolve, 5));
    },
    leftovers: async () => {
      const folders = ["vms", "names", "changes", "snapshots", "snapshot-names", "work", "trash"];
      const found = await Promise.all(
        folders.map(async (folder) =>
          (await readdir(join(directory.path, "qemu", folder))).map((name) => `${folder}/${name}`),
        ),
      );
      return found.flat();
    },
    [Symbol.asyncDispose]: async () => {
      await runtime[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

function isThere(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
