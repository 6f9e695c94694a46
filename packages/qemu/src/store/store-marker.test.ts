import assert from "node:assert/strict";
import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { SnapshotStore } from "./snapshot-store.ts";
import { VmStore } from "./vm-store.ts";

const unavailable = (error: unknown) => isFault(error, "unavailable");
const anId = "A".repeat(26);

test("a store that vanishes while it is open is unavailable, not empty", async () => {
  await using directory = await temporaryDirectory();
  const root = join(directory.path, "root");
  const store = await VmStore.open(root);
  const snapshots = new SnapshotStore(store, () => undefined);
  assert.deepEqual([await store.list(), await snapshots.list()], [[], []]);
  await rename(root, `${root}-away`);
  for (const step of ["gone", "empty again"]) {
    await assert.rejects(store.list(), unavailable, step);
    await assert.rejects(store.find(anId), unavailable, step);
    await assert.rejects(store.find("name"), unavailable, step);
    await assert.rejects(store.read(anId), unavailable, step);
    await mkdir(join(root, "qemu", "vms"), { recursive: true });
    await mkdir(join(root, "qemu", "snapshots"), { recursive: true });
  }
  await assert.rejects(snapshots.find("name"), unavailable);
  await rm(root, { recursive: true });
  await rename(`${root}-away`, root);
  await assert.rejects(store.find("name"), (error) => isFault(error, "notFound"));
});

test("a mount point without its store is not made a new store", async () => {
  await using directory = await temporaryDirectory();
  const root = join(directory.path, "data", "cocoon");
  await VmStore.open(root);
  const { id } = JSON.parse(await readFile(join(root, "qemu", "store.json"), "utf8")) as { id: string };
  // What a store on a file system of its own leaves beside the mount point "data".
  await writeFile(join(directory.path, ".data.cocoon-store"), JSON.stringify({ [join(root, "qemu")]: id }));
  await rename(join(directory.path, "data"), join(directory.path, "elsewhere"));
  await assert.rejects(VmStore.open(root), unavailable);
  await assert.rejects(VmStore.open(root), /mount its file system/);
  await rm(join(directory.path, "data"), { recursive: true });
  await rename(join(directory.path, "elsewhere"), join(directory.path, "data"));
  assert.deepEqual(await (await VmStore.open(root)).list(), []);
});
