/** The fake passes the suite that the real ones pass. */
import { readdir } from "node:fs/promises";
import { temporaryDirectory } from "@cocoon/testkit";
import { vmRuntimeContract } from "../contract-suite.ts";
import { FakeHost } from "./fake-host.ts";
import { FakeRuntime } from "./fake-runtime.ts";

const mebibyte = 1024 * 1024;

vmRuntimeContract("fake", async () => {
  const directory = await temporaryDirectory();
  const host = new FakeHost({ directory: directory.path, readyAfterMs: 5 });
  const runtime = new FakeRuntime(host);
  return {
    runtime,
    image: "demo",
    small: { cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte },
    reopen: () => Promise.resolve(new FakeRuntime(host)),
    kill: (vm) => {
      host.kill(vm.id);
      return Promise.resolve();
    },
    leftovers: async () => [...host.vms.keys(), ...(await readdir(directory.path))],
    [Symbol.asyncDispose]: async () => {
      await runtime[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
});
