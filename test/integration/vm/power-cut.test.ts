/** A power cut on a disk that loses what was not flushed: what a machine's user was told is done is still there. */
import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { count, requireRoot, temporaryDirectory, testSeed } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import { openLossyDisk, type AfterCut } from "./lossy-disk.ts";
import { imageDirectory, openQemuRuntimeIn } from "./qemu-harness.ts";

const { signal } = new AbortController();
const mebibyte = 1024 * 1024;
const small = { cpus: 1, memoryBytes: 96 * mebibyte, storageBytes: 256 * mebibyte };
const ready = () => AbortSignal.timeout(180_000);

async function run(runtime: VmRuntime, id: string, script: string): Promise<string> {
  await using program = await runtime.exec(id, { argv: ["sh", "-c", script] }, { signal });
  return (await program.stdout.toArray()).join("").trim();
}

/** Opens what the cut left and boots the machine from its disk. */
async function readAfterCut(root: string, id: string, script = "cat /root/lines"): Promise<string> {
  await using runtime = await openQemuRuntimeIn(root, { signal });
  const vm = await runtime.inspect(id, { signal });
  assert.ok(vm.state === "stopped" || vm.state === "created", vm.problem ?? vm.state);
  await runtime.start(id, { signal });
  try {
    await runtime.waitReady(id, { signal: ready() });
    return await run(runtime, id, script);
  } finally {
    await runtime.stop(id, { force: true, signal });
  }
}

interface Worked {
  readonly id: string;
  readonly snapshotId: string;
  /** What the guest had synced. */
  readonly expected: string;
}

/** A machine that writes and is saved; it still runs afterwards. */
async function workOn(root: string): Promise<Worked> {
  await using runtime = await openQemuRuntimeIn(root, { signal });
  const { id } = await runtime.run({ name: "cut", image: demoImageName, ...small }, { signal });
  await runtime.waitReady(id, { signal: ready() });
  const saves = count({ small: 2, full: 12 });
  const worked = { id, snapshotId: "", expected: "" };
  for (let round = 1; round <= saves; round += 1) {
    worked.expected = await run(runtime, id, `echo ${round} >> /root/lines; sync; cat /root/lines`);
    worked.snapshotId = (await runtime.snapshots.save(id, { signal })).snapshot.id;
  }
  return worked;
}

async function endMachines(root: string): Promise<void> {
  await using runtime = await openQemuRuntimeIn(root, { signal });
  for (const vm of await runtime.list({ signal })) await runtime.stop(vm.id, { force: true, signal });
}

test("a power cut after a save keeps the snapshot and what the guest had synced", async (t) => {
  requireRoot("mount a disk");
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  await using disk = await openLossyDisk(768 * mebibyte);
  const { id, expected, snapshotId } = await workOn(disk.path);
  const cuts: AfterCut[] = [];
  for (const keep of [0, 0.5]) cuts.push(await disk.cut({ keep, seed: testSeed() }));
  await endMachines(disk.path);
  for (const cut of cuts) {
    t.diagnostic(`${cut.unflushed} blocks were not flushed`);
    await using after = await cut.mount();
    const snapshot = join(after.path, "qemu", "snapshots", snapshotId);
    const { files } = JSON.parse(await readFile(join(snapshot, "config.json"), "utf8")) as {
      files: Record<string, number>;
    };
    const names = await readdir(snapshot);
    for (const name of Object.keys(files)) assert.ok(names.includes(name), `${name} is there`);
    assert.equal(await readAfterCut(after.path, id), expected);
  }
});

test("a power cut right after a machine was made keeps it", async () => {
  requireRoot("mount a disk");
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  await using disk = await openLossyDisk(768 * mebibyte);
  await using runtime = await openQemuRuntimeIn(disk.path, { signal });
  const spec = { name: "just-made", image: demoImageName, ...small, start: false };
  const { id } = await runtime.run(spec, { signal });
  const cut = await disk.cut({ keep: 0, seed: testSeed() });
  await using after = await cut.mount();
  assert.equal(await readAfterCut(after.path, id, "hostname"), "just-made");
});

test("a power cut that empties the name of a machine takes neither the machine nor the name away", async () => {
  await using directory = await temporaryDirectory();
  await openImageLibrary({ directory: imageDirectory() }).pull(demoImageName, { signal });
  const spec = { name: "cut", image: demoImageName, ...small };
  const names = join(directory.path, "qemu", "names");
  const cutName = () => writeFile(join(names, spec.name), ""); // renamed into place, its content not flushed
  const before = await openQemuRuntimeIn(directory.path, { signal });
  const first = await before.run(spec, { signal });
  await before.stop(first.id, { force: true, signal });
  await before[Symbol.asyncDispose]();
  await cutName();
  await using runtime = await openQemuRuntimeIn(directory.path, { signal });
  assert.equal((await runtime.inspect(spec.name, { signal })).id, first.id);
  assert.equal(await readFile(join(names, spec.name), "utf8"), first.id);
  await cutName();
  await runtime.remove(first.id, { force: true, signal });
  assert.deepEqual(await readdir(names), [], "a machine that is removed leaves no name");
  await cutName();
  const second = await runtime.run(spec, { signal });
  await runtime.remove(second.id, { force: true, signal });
  assert.deepEqual(await readdir(names), []);
});
