/** Merging disk layers loses nothing, whenever QEMU or its manager is killed (issue 18, item 24). */
import assert from "node:assert/strict";
import { readFile, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { isFault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { readQcow2Head } from "../../../packages/qemu/src/disk/qcow2.ts";
import { openQemuHarness } from "./qemu-harness.ts";

const { signal } = new AbortController();
const ready = () => AbortSignal.timeout(120_000);
const layersBeforeMerge = 7;

interface Record {
  readonly files: string;
  readonly disks: readonly { readonly layers: readonly { readonly file: string }[] }[];
}

async function readRecord(root: string, vm: Vm): Promise<{ record: Record; files: string }> {
  const directory = join(root, "qemu", "vms", vm.id);
  const record = JSON.parse(await readFile(join(directory, "vm.json"), "utf8")) as Record;
  return { record, files: join(directory, record.files) };
}

async function run(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  return (await program.stdout.toArray()).join("").trim();
}

const checksums = "cd /root && for f in part-*; do sha256sum $f; done";

/** A guest with something of its own in every layer; the last save starts the merge. */
async function runLayered(
  runtime: VmRuntime,
  options: { image: string; small: object },
): Promise<{ vm: Vm; before: string }> {
  const vm = await runtime.run({ name: "layered", image: options.image, ...options.small }, { signal });
  await runtime.waitReady(vm.id, { signal: ready() });
  let before = "";
  for (let layer = 1; layer <= layersBeforeMerge; layer += 1) {
    before = await run(runtime, vm, `head -c 1000000 /dev/urandom > /root/part-${layer}; sync; ${checksums}`);
    await runtime.snapshots.save(vm.id, { signal });
  }
  return { vm, before };
}

/** Resolves the moment the top layer's header names the base. */
async function awaitMerged(root: string, vm: Vm): Promise<void> {
  const { files } = await readRecord(root, vm);
  const names = (await readdir(files)).filter((name) => name.startsWith("root-"));
  const base = names.find((name) => name.startsWith("root-0."));
  const top = `root-${layersBeforeMerge + 1}.qcow2`;
  for (const deadline = performance.now() + 60_000; performance.now() < deadline; await pause(1))
    if ((await readQcow2Head(join(files, top))).backingFile === base) return;
  assert.fail("the layers were not merged");
}

test("QEMU killed the moment layers are merged loses nothing", { timeout: 600_000 }, async () => {
  await using harness = await openQemuHarness({ signal });
  const { runtime } = harness;
  const watching = new AbortController();
  void (async () => {
    for await (const _event of runtime.watch({ signal: watching.signal }));
  })();
  const { vm, before } = await runLayered(runtime, harness);
  await awaitMerged(harness.root, vm);
  await harness.kill(await runtime.inspect(vm.id, { signal }));
  await eventually(async () => assert.equal((await runtime.inspect(vm.id, { signal })).state, "stopped"), {
    signal,
  });
  await runtime.start(vm.id, { signal });
  await runtime.waitReady(vm.id, { signal: ready() });
  assert.equal(await run(runtime, vm, checksums), before);
  await eventually(
    async () => {
      const { record, files } = await readRecord(harness.root, vm);
      const kept = (await readdir(files)).filter((name) => name.startsWith("root-"));
      assert.deepEqual(kept.sort(), record.disks[0]?.layers.map(({ file }) => file).sort());
      assert.equal(kept.length, 2, "the merged layers are gone");
    },
    { signal },
  );
  watching.abort();
});

test("a machine whose disk is not what its record says is broken, and is never booted", async () => {
  await using harness = await openQemuHarness({ signal });
  const { runtime } = harness;
  const vm = await runtime.run({ name: "mismatch", image: harness.image, ...harness.small }, { signal });
  await runtime.waitReady(vm.id, { signal: ready() });
  for (let layer = 1; layer <= 2; layer += 1) {
    await run(runtime, vm, `head -c 1000000 /dev/urandom > /root/part-${layer}; sync`);
    const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
    await runtime.snapshots.remove(snapshot.id, { signal });
  }
  await runtime.stop(vm.id, { force: true, signal });
  const { record, files } = await readRecord(harness.root, vm);
  const layers = record.disks[0]?.layers ?? [];
  const [base, top] = [layers[0]?.file ?? "", layers.at(-1)?.file ?? ""];
  // What a merge whose copies never reached the disk leaves: a header that names the base.
  const content = await readFile(join(files, top));
  const below = layers.at(-2)?.file ?? "";
  const at = content.indexOf(below, 0, "latin1");
  assert.ok(at > 0 && at < 4096, "the header names the layer below");
  content.fill(0, at, at + below.length);
  content.write(base, at, "latin1");
  content.writeUInt32BE(base.length, 16);
  await writeFile(join(files, top), content);
  await assert.rejects(runtime.start(vm.id, { signal }), (error) => isFault(error, "preconditionFailed"));
  const broken = await runtime.inspect(vm.id, { signal });
  assert.equal(broken.state, "error");
  assert.match(broken.problem ?? "", /lacks \d+ of their clusters/);
  await using again = await harness.reopen();
  assert.equal((await again.inspect(vm.id, { signal })).state, "error");
  const kept = (await readdir(files)).filter((name) => name.startsWith("root-"));
  assert.deepEqual(kept.sort(), layers.map(({ file }) => file).sort(), "nothing was removed");
});
