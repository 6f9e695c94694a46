import assert from "node:assert/strict";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { VmStore } from "./vm-store.ts";

test("a name that a killed process did not finish is swept, also while its VM is still there", async ({
  signal,
}) => {
  await using directory = await temporaryDirectory();
  const store = await VmStore.open(join(directory.path, "root"));
  const { id, lock } = await store.create({ signal });
  using _lock = lock;
  await store.claimName("kept", id, { signal });
  // As the kill between the write and the rename leaves it.
  await writeFile(join(store.layout.names, ".3903163dfbfd.tmp"), id);
  assert.deepEqual(await store.sweepNames(), [".3903163dfbfd.tmp"]);
  assert.deepEqual(await readdir(store.layout.names), ["kept"]);
});
