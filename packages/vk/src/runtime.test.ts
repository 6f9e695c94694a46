import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { chooseRuntime } from "./runtime.ts";

const { signal } = new AbortController();

test("an external cocoon that is installed wins, our own does not, and a broken one is no choice", async () => {
  await using directory = await temporaryDirectory();
  const command = async (name: string, text: string) => {
    const path = join(directory.path, name);
    await writeFile(path, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    return path;
  };
  const choose = (cocoonBin: string) => chooseRuntime({ runtime: "auto", cocoonBin }, { signal });
  assert.equal(await choose(await command("theirs", "echo 'Version: v0.5.7'")), "cocoon");
  assert.equal(await choose(await command("ours", "echo 'Golang version: none (Node.js v26)'")), "qemu");
  assert.equal(await choose(join(directory.path, "missing")), "qemu");
  await assert.rejects(
    choose(await command("broken", "exit 3")),
    /is there but does not run.*VK_RUNTIME=qemu/,
  );
  assert.equal(await chooseRuntime({ runtime: "cocoon", cocoonBin: "/nowhere" }, { signal }), "cocoon");
});
