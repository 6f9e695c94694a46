import assert from "node:assert/strict";
import { mkdir, readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { tryReadFile, writeFileAtomically } from "./files.ts";

test("writes, replaces, keeps the mode, leaves no temporary file", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "deep", "file");
  await writeFileAtomically(path, "one", { mode: 0o600 });
  await writeFileAtomically(path, "two", { mode: 0o600, sync: false });
  assert.equal(await readFile(path, "utf8"), "two");
  assert.equal((await stat(path)).mode & 0o777, 0o600);
  assert.deepEqual(await readdir(join(directory.path, "deep")), ["file"]);
});

test("a write that fails leaves the old file and nothing else", async () => {
  await using directory = await temporaryDirectory();
  await mkdir(join(directory.path, "target"));
  await assert.rejects(writeFileAtomically(join(directory.path, "target"), "x"));
  assert.deepEqual(await readdir(directory.path), ["target"]);
});

test("a missing file is undefined, anything else is an error", async () => {
  await using directory = await temporaryDirectory();
  assert.equal(await tryReadFile(join(directory.path, "none")), undefined);
  await assert.rejects(tryReadFile(directory.path));
});
