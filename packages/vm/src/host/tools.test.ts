import assert from "node:assert/strict";
import { chmod, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { Fault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { requireTools, runTool } from "./tools.ts";

test("all missing programs are named at once, with one command that gets them", async () => {
  await using directory = await temporaryDirectory();
  const present = join(directory.path, "apt-get");
  await writeFile(present, "#!/bin/sh\n");
  await chmod(present, 0o755);
  await assert.rejects(
    requireTools(["apt-get", "mke2fs", "debugfs", "qemu-img"], "making a disk", [directory.path]),
    (error) => {
      assert.ok(error instanceof Fault);
      assert.equal(error.code, "notSupported");
      assert.equal(
        error.message,
        'making a disk needs mke2fs, debugfs, qemu-img: install with "apt-get install e2fsprogs qemu-utils"',
      );
      return true;
    },
  );
  await requireTools(["apt-get"], "nothing", [directory.path]);
});

test("a program that fails says what it said", async (t) => {
  await assert.rejects(runTool("ip", ["nonsense"], t), /ip failed \(\d+\): .*nonsense/);
  const answered = await runTool("ip", ["link", "show", "dev", "no-such-device"], {
    ...t,
    signal: t.signal,
    acceptCodes: [0, 1],
  });
  assert.equal(answered.code, 1);
});

test("a program that does not end is ended", async (t) => {
  const started = performance.now();
  await assert.rejects(
    runTool("ip", ["monitor"], { signal: t.signal, timeoutMs: 200 }),
    (error) => error instanceof Fault && error.code === "timeout",
  );
  assert.ok(performance.now() - started < 30_000);
  const controller = new AbortController();
  const running = runTool("ip", ["monitor"], { signal: controller.signal });
  controller.abort(new Error("enough"));
  await assert.rejects(running, /enough/);
});
