/**
 * A power cut while a machine is woken lazily, on a disk that loses what was not flushed: the machine boots with what its guest
 * had synced, or, when it had not answered yet, is woken again from the registry with its memory.
 */
import assert from "node:assert/strict";
import { chmod } from "node:fs/promises";
import { dirname } from "node:path";
import { after, before, test } from "node:test";
import { startSlowLink, type SlowLink } from "@cocoon/oci/testing";
import { eventually, fullTierOnly, requireRoot, testSeed } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import {
  diskSumScript,
  openLazyRuntime,
  putMachineToSleep,
  run,
  sumScript,
  wake,
  type SleepingMachine,
} from "./lazy-harness.ts";
import { openLossyDisk, type AfterCut } from "./lossy-disk.ts";

const { signal } = new AbortController();
const mebibyte = 1024 * 1024;
const patience = { timeoutMs: 240_000, intervalMs: 50 };
/** Slow enough that much is missing when the power goes. */
const slow = { bytesPerSecond: 6e6, delayMs: 5 };
const slowTest = { timeout: 1_800_000, ...fullTierOnly("three power cuts under guests on a slow disk") };
/** Of what was not flushed: nothing survives, or half of the blocks do. */
const surviving = [0, 0.5];
let machine: SleepingMachine;

before(async () => {
  if (slowTest.skip) return;
  requireRoot("mount a disk");
  machine = await putMachineToSleep({ memoryMib: 128, contentMib: 24 });
});
after(() => machine?.[Symbol.asyncDispose]());

/** Wakes the machine on a disk, lets it work, and keeps what a power cut would leave; then ends what still runs. */
async function cutDuring(
  link: SlowLink,
  work: (runtime: VmRuntime, id: string) => Promise<void>,
): Promise<{ readonly id: string; readonly cuts: readonly AfterCut[] } & AsyncDisposable> {
  await using stack = new AsyncDisposableStack();
  const disk = stack.use(await openLossyDisk(1024 * mebibyte));
  await chmod(dirname(disk.path), 0o711); // QEMU has a user of its own
  await using runtime = await open(disk.path, link);
  const id = await wake(runtime, { name: "cut", digest: machine.digest });
  try {
    await work(runtime, id);
    const cuts: AfterCut[] = [];
    for (const keep of surviving) cuts.push(await disk.cut({ keep, seed: testSeed() }));
    const owned = stack.move();
    return { id, cuts, [Symbol.asyncDispose]: () => owned.disposeAsync() };
  } finally {
    await runtime.remove(id, { force: true, signal });
  }
}

function open(root: string, link: SlowLink): Promise<VmRuntime> {
  return openLazyRuntime(root, { address: link.address, token: machine.token });
}

/** Opens what a cut left. */
async function withCut(
  cut: AfterCut,
  link: SlowLink,
  use: (runtime: VmRuntime) => Promise<void>,
): Promise<void> {
  await using after = await cut.mount();
  await using runtime = await open(after.path, link);
  try {
    await use(runtime);
  } finally {
    for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  }
}

async function isStoppedAfterCut(runtime: VmRuntime, id: string) {
  const vm = await runtime.inspect(id, { signal });
  assert.equal(vm.state, "stopped", vm.problem ?? vm.state);
  return vm;
}

async function hasOwnDisk(runtime: VmRuntime, id: string): Promise<void> {
  const sums = await run(runtime, id, diskSumScript);
  assert.ok(
    sums.split("\n").every((line) => machine.sums.includes(line)),
    `${sums} of ${machine.sums}`,
  );
}

const writeSynced = "echo kept > /root/after-wake && sync";

test("a power cut after the machine answered: it boots with what it had synced", slowTest, async () => {
  await using link = await startSlowLink(machine.url, slow);
  await using cut = await cutDuring(link, async (runtime, id) => {
    await run(runtime, id, writeSynced);
    await eventually(async () => {
      const { loading } = await runtime.inspect(id, { signal });
      assert.equal(loading?.hasAnswered, true, "it has answered and is not all here");
    }, patience);
    link.cut();
  });
  link.repair();
  for (const each of cut.cuts)
    await withCut(each, link, async (runtime) => {
      const { loading } = await isStoppedAfterCut(runtime, cut.id);
      assert.equal(loading?.hasAnswered, true, "what the guest did since may be relied on");
      await runtime.start(cut.id, { signal });
      assert.equal(await run(runtime, cut.id, "cat /root/after-wake"), "kept");
      await hasOwnDisk(runtime, cut.id);
      assert.equal((await runtime.inspect(cut.id, { signal })).loading, undefined);
    });
  assert.ok(await machine.isThere());
});

test("a power cut before the machine answered: it is woken again, with its memory", slowTest, async () => {
  await using link = await startSlowLink(machine.url, { ...slow, bytesPerSecond: 1e6 });
  await using cut = await cutDuring(link, async (runtime, id) => {
    link.cut();
    assert.ok((await runtime.inspect(id, { signal })).loading);
  });
  link.repair();
  for (const each of cut.cuts)
    await withCut(each, link, async (runtime) => {
      const { loading } = await isStoppedAfterCut(runtime, cut.id);
      assert.ok(loading, "it is known that its files are not whole");
      await runtime.remove(cut.id, { force: true, signal });
      const again = await wake(runtime, { name: "cut", digest: machine.digest });
      assert.equal(await run(runtime, again, sumScript), machine.sums);
    });
});

test("a power cut after all was local: it boots without the registry", slowTest, async () => {
  await using link = await startSlowLink(machine.url);
  await using cut = await cutDuring(link, async (runtime, id) => {
    await run(runtime, id, writeSynced);
    await eventually(async () => {
      assert.equal((await runtime.inspect(id, { signal })).loading, undefined);
    }, patience);
  });
  link.cut(); // its snapshot may be gone by now
  for (const each of cut.cuts)
    await withCut(each, link, async (runtime) => {
      const { loading } = await isStoppedAfterCut(runtime, cut.id);
      assert.equal(loading, undefined);
      await runtime.start(cut.id, { signal });
      assert.equal(await run(runtime, cut.id, "cat /root/after-wake"), "kept");
      await hasOwnDisk(runtime, cut.id);
    });
});
