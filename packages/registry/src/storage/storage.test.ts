import { rm } from "node:fs/promises";
import { temporaryDirectory } from "@cocoon/testkit";
import { faultyStorage } from "../testing/faulty-storage.ts";
import { storageContract } from "../testing/storage-contract.ts";
import { openFilesystemStorage } from "./filesystem.ts";
import { openFakeStorage } from "../testing/fake-storage.ts";
import type { Storage } from "./storage.ts";

storageContract("fake", async () => openFakeStorage());
storageContract("filesystem", openInTemporaryDirectory);
storageContract("slow and nearly full", async () =>
  faultyStorage(openFakeStorage(), { delayMs: 1, freeBytes: 10_000_000 }),
);

async function openInTemporaryDirectory(): Promise<Storage> {
  const directory = await temporaryDirectory();
  const storage = await openFilesystemStorage(directory.path);
  const dispose = storage[Symbol.asyncDispose].bind(storage);
  return Object.assign(storage, {
    [Symbol.asyncDispose]: async () => {
      await dispose();
      await rm(directory.path, { recursive: true });
    },
  });
}
