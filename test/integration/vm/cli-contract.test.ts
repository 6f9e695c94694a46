/** The contract suite over the driver of an external `cocoon`, which is our own command with real guests behind it. */
import { chmod, symlink } from "node:fs/promises";
import { join } from "node:path";
import { temporaryDirectory, tier } from "@cocoon/testkit";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openCliRuntime } from "@cocoon/vm";
import { vmRuntimeContract } from "@cocoon/vm/testing";
import { imageDirectory, killVm, leftoversIn } from "./qemu-harness.ts";

const mebibyte = 1024 * 1024;
const main = join(import.meta.dirname, "..", "..", "..", "packages", "cocoon", "src", "main.ts");

// Each call starts a process beside the emulated guests: minutes, so the full tier only, and the run says so.
const suite: typeof vmRuntimeContract = tier() === "full" ? vmRuntimeContract : sayLater;

function sayLater(name: string): void {
  console.log(`# full tier only: the contract suite over the ${name}`);
}

suite("cocoon command", async ({ signal }) => {
  const directory = await temporaryDirectory();
  // As root each QEMU runs as a user of its own, who must pass through; otherwise the command warns on stderr.
  await chmod(directory.path, 0o711);
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  await symlink(imageDirectory(), join(directory.path, "images"));
  const open = () =>
    openCliRuntime({
      command: [process.execPath, main],
      rootDirectory: directory.path,
      env: { ...process.env, COCOON_ROOT_DIR: directory.path },
      sudo: "never",
      signal,
    });
  const runtime = await open();
  return {
    runtime,
    image: demoImageName,
    small: { cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte },
    reopen: open,
    kill: killVm,
    leftovers: () => leftoversIn(directory.path, "net/user"),
    [Symbol.asyncDispose]: async () => {
      const cleaning = AbortSignal.timeout(120_000);
      for (const vm of await runtime.list({ signal: cleaning }))
        await runtime.remove(vm.id, { force: true, signal: cleaning });
      await runtime[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
});
