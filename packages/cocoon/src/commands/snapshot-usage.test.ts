import assert from "node:assert/strict";
import { link, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { readSnapshotUsage } from "./snapshot-usage.ts";

test("snapshots of a host are counted with the disk they take, shared files once", async () => {
  await using directory = await temporaryDirectory();
  assert.deepEqual(await readSnapshotUsage(directory.path), { count: 0, bytes: 0 });
  const store = join(directory.path, "qemu", "snapshots");
  for (const id of ["a", "b"]) await mkdir(join(store, id, "files"), { recursive: true });
  const base = join(store, "a", "files", "base");
  await writeFile(base, Buffer.alloc(1 << 20, 1));
  await link(base, join(store, "b", "files", "base"));
  await writeFile(join(store, "b", "snapshot.json"), "{}");
  const { count, bytes } = await readSnapshotUsage(directory.path);
  assert.equal(count, 2);
  assert.ok(bytes >= 1 << 20 && bytes < 2 << 20, String(bytes));
});
