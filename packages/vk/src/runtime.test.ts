import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { temporaryDirectory } from "@cocoon/testkit";
import { FakeHost, FakeRuntime } from "@cocoon/vm/testing";
import { silentLogger } from "@cocoon/core";
import { addMacos, chooseRuntime } from "./runtime.ts";

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

test("macOS guests run where their program is installed, and a broken one stops the start", async () => {
  await using directory = await temporaryDirectory();
  const path = "/usr/bin:/bin";
  const runtime = new FakeRuntime(new FakeHost({ directory: directory.path }));
  const add = async (text?: string) => {
    const macosBin = join(directory.path, "cocoon-macos");
    if (text !== undefined) await writeFile(macosBin, `#!/bin/sh\n${text}\n`, { mode: 0o755 });
    const rest = { macosHome: undefined, leasesPath: undefined, dockerConfig: "/root/.docker/config.json" };
    const config = { macosBin, path, rootDirectory: directory.path, ...rest };
    const opened = await addMacos(runtime, config, { log: silentLogger, signal });
    return (await opened.describe({ signal })).can.macos ?? false;
  };
  assert.equal(await add(), false);
  assert.equal(await add("echo '  --name string'"), true);
  await assert.rejects(add("echo broken >&2; exit 3"), /cocoon-macos vm run: broken/);
});
