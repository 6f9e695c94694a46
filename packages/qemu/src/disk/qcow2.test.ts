import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import { createQcow2 } from "./qcow2.ts";

interface Info {
  readonly format: string;
  readonly "virtual-size": number;
  readonly "backing-filename"?: string;
  readonly "backing-filename-format"?: string;
}

function info(path: string): Info {
  return JSON.parse(execFileSync("qemu-img", ["info", "--output=json", path], { encoding: "utf8" })) as Info;
}

test("qemu-img finds nothing wrong with the disks we make, small and huge", async () => {
  await using directory = await temporaryDirectory();
  for (const virtualBytes of [512, 64 * 2 ** 20, 10 * 2 ** 30, 2 ** 40 + 512, 64 * 2 ** 40]) {
    const path = join(directory.path, `${virtualBytes}.qcow2`);
    await createQcow2({ path, virtualBytes });
    assert.equal(info(path)["virtual-size"], virtualBytes);
    assert.match(execFileSync("qemu-img", ["check", path], { encoding: "utf8" }), /No errors were found/);
  }
});

test("an overlay shows its base's content, keeps it unchanged, and may be larger", async () => {
  await using directory = await temporaryDirectory();
  const [base, overlay] = [join(directory.path, "base.raw"), join(directory.path, "overlay.qcow2")];
  const io = (...args: string[]) => execFileSync("qemu-io", args, { encoding: "utf8" });
  execFileSync("truncate", ["-s", "4M", base]);
  io("-f", "raw", "-c", "write -P 0x11 1M 64k", base);
  await createQcow2({
    path: overlay,
    virtualBytes: 8 * 2 ** 20,
    backing: { file: "base.raw", format: "raw" },
  });
  assert.deepEqual(
    [
      info(overlay)["backing-filename"],
      info(overlay)["backing-filename-format"],
      info(overlay)["virtual-size"],
    ],
    ["base.raw", "raw", 8 * 2 ** 20],
  );
  io("-c", "write -P 0x22 1M 32k", "-c", "write -P 0x33 7M 32k", overlay);
  assert.doesNotMatch(io("-c", "read -P 0x11 1056k 32k", "-c", "read -P 0x33 7M 32k", overlay), /failed/);
  assert.doesNotMatch(io("-f", "raw", "-c", "read -P 0x11 1M 64k", base), /failed/);
  assert.match(execFileSync("qemu-img", ["check", overlay], { encoding: "utf8" }), /No errors were found/);
});

test("an existing file is not overwritten, an impossible size is refused", async () => {
  await using directory = await temporaryDirectory();
  const path = join(directory.path, "disk.qcow2");
  await createQcow2({ path, virtualBytes: 2 ** 20 });
  await assert.rejects(createQcow2({ path, virtualBytes: 2 ** 20 }), (error) =>
    isFault(error, "alreadyExists"),
  );
  await assert.rejects(createQcow2({ path: `${path}2`, virtualBytes: 1000 }), (error) =>
    isFault(error, "invalid"),
  );
});
