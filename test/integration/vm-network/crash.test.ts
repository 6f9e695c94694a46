/** Processes that are killed while they hand out addresses leave a book that is whole. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { count, killChild, seededRandom, temporaryDirectory, testSeed } from "@cocoon/testkit";
import { openUserNetwork } from "@cocoon/qemu";

const worker = join(import.meta.dirname, "crash-worker.ts");

/** Runs until it has said something and then a random while longer. */
async function runAndKill(directory: string, prefix: string, afterMs: number): Promise<void> {
  const child = spawn(process.execPath, [worker, directory, prefix], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  child.stdout.resume();
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  await killChild(child);
}

test("every VM has one address and every address one VM, whenever the writers died", async (t) => {
  await using directory = await temporaryDirectory();
  const random = seededRandom(testSeed());
  for (let round = 0; round < count({ small: 4, full: 40 }); round += 1) {
    await Promise.all(["A", "B"].map((prefix) => runAndKill(directory.path, prefix, random() * 300)));
    const files = (await readdir(directory.path)).filter((name) => name.endsWith(".json"));
    const owners = await Promise.all(
      files.map(
        async (name) =>
          (JSON.parse(await readFile(join(directory.path, name), "utf8")) as { vmId: string }).vmId,
      ),
    );
    assert.equal(new Set(owners).size, owners.length, `${owners.join(" ")}: a VM has two addresses`);
    const network = await openUserNetwork({
      directory: directory.path,
      subnet: "127.92.0.0/26",
      firstFreePort: 1024,
    });
    const [owner] = owners;
    if (owner !== undefined) {
      const before = await network.address(owner, t);
      await network.prepare({ vmId: owner, vmName: owner, cpus: 1, spec: {} }, t);
      assert.deepEqual(await network.address(owner, t), before, "who has one keeps it");
    }
  }
});
