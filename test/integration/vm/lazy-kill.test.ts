/**
 * What a lazily woken machine depends on is killed under a real guest: its page server, its manager, QEMU, the registry. The
 * machine continues, or stops and is woken again from the registry; in both cases with the memory that it slept with.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { open, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { count, eventually, requireRoot, seededRandom, testSeed } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import {
  diskSumScript,
  findPageServer,
  openLazyNode,
  putMachineToSleep,
  run,
  sumScript,
  wake,
  type LazyNode,
  type SleepingMachine,
} from "./lazy-harness.ts";
import { leftoversIn } from "./qemu-harness.ts";

const { signal } = new AbortController();
const patience = { timeoutMs: 240_000, intervalMs: 50 };
/** Slow enough that much is missing when something is killed. */
const slow = { bytesPerSecond: 6e6, delayMs: 5 };
const slowTest = { timeout: 900_000 };
let machine: SleepingMachine;

before(async () => {
  requireRoot("mount a file system");
  machine = await putMachineToSleep({ memoryMib: 128, contentMib: 24 });
});
after(() => machine[Symbol.asyncDispose]());

async function becomesLocal(runtime: VmRuntime, id: string): Promise<void> {
  await eventually(async () => {
    const { loading, state } = await runtime.inspect(id, { signal });
    assert.equal(state, "running");
    assert.equal(loading, undefined);
  }, patience);
}

/** Content is missing, and does not come. */
async function isHeldUp(runtime: VmRuntime, id: string): Promise<void> {
  await eventually(async () => {
    const { loading } = await runtime.inspect(id, { signal });
    assert.ok(loading, "it is not all here");
    assert.ok(loading.problem);
  }, patience);
}

/** A failure of the test itself is shown, not that the guest then did not get to its end. */
function startSums(runtime: VmRuntime, id: string): Promise<string> {
  const sums = run(runtime, id, sumScript);
  sums.catch(() => undefined);
  return sums;
}

async function killAndWait(pid: number): Promise<void> {
  process.kill(pid, "SIGKILL");
  await eventually(async () => {
    const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
    assert.ok(status === "" || /^State:\s*Z/m.test(status), status);
  }, patience);
}

/** Resolves when another one was started; the one that was killed. */
async function killPageServer({ root }: LazyNode, id: string): Promise<number> {
  const server = await findPageServer(root, id);
  await killAndWait(server);
  await eventually(async () => assert.notEqual(await findPageServer(root, id), server), patience);
  return server;
}

async function removeAll(node: LazyNode, runtime: VmRuntime): Promise<void> {
  for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  assert.deepEqual(await leftoversIn(node.root), []);
  assert.ok(!(await readFile("/proc/self/mountinfo", "utf8")).includes(node.root), "no mount is left");
}

test(
  "a page server that is killed again and again is replaced, and the guest gets the right content",
  slowTest,
  async () => {
    await using node = await openLazyNode(machine, slow);
    await using runtime = await node.open();
    const id = await wake(runtime, { name: "served", digest: machine.digest });
    const { pid } = await runtime.inspect(id, { signal });
    const sums = startSums(runtime, id);
    const killed = new Set<number>();
    for (let round = 0; round < count({ small: 2, full: 4 }); round += 1) {
      const server = await killPageServer(node, id);
      assert.ok(!killed.has(server));
      killed.add(server);
    }
    assert.equal(await sums, machine.sums);
    await becomesLocal(runtime, id);
    assert.equal((await runtime.inspect(id, { signal })).pid, pid, "it is the same QEMU");
    // All of it is here, and the mapping of its memory is still the mount's: the server is needed as before.
    node.link.cut();
    await killAndWait(await findPageServer(node.root, id));
    assert.equal(await run(runtime, id, sumScript), machine.sums);
    await removeAll(node, runtime);
  },
);

test("a guest waits while the registry is gone, and continues with the right content", slowTest, async () => {
  await using node = await openLazyNode(machine, slow);
  await using runtime = await node.open();
  const id = await wake(runtime, { name: "cut", digest: machine.digest });
  const sums = startSums(runtime, id);
  for (let round = 0; round < count({ small: 1, full: 3 }); round += 1) {
    node.link.cut();
    await isHeldUp(runtime, id);
    // A server that starts while the registry is gone has no list of the machine's chunks.
    await killPageServer(node, id);
    await isHeldUp(runtime, id);
    node.link.repair();
  }
  assert.equal(await sums, machine.sums);
  await becomesLocal(runtime, id);
  await removeAll(node, runtime);
});

test(
  "a QEMU that is killed while it waits for content ends, and the machine is woken again",
  slowTest,
  async () => {
    await using node = await openLazyNode(machine, slow);
    await using runtime = await node.open();
    const id = await wake(runtime, { name: "killed", digest: machine.digest });
    const { pid = 0 } = await runtime.inspect(id, { signal });
    node.link.cut();
    const lost = run(runtime, id, sumScript).then(
      () => assert.fail("it cannot have read what is not here"),
      () => undefined,
    );
    await isHeldUp(runtime, id);
    await killAndWait(pid);
    await eventually(
      async () => assert.equal((await runtime.inspect(id, { signal })).state, "stopped"),
      patience,
    );
    await lost;
    const { loading } = await runtime.inspect(id, { signal });
    assert.ok(loading, "it is known that its files are not whole");
    node.link.repair();
    assert.ok(await machine.isThere(), "the snapshot is whole");
    await runtime.remove(id, { force: true, signal });
    const again = await wake(runtime, { name: "killed", digest: machine.digest });
    assert.equal(await run(runtime, again, sumScript), machine.sums);
    // The other way: its files are completed, and it boots its own disk.
    await runtime.stop(again, { force: true, signal });
    await runtime.start(again, { signal });
    assert.match(machine.sums, new RegExp(await run(runtime, again, "sha256sum /root/content")));
    await removeAll(node, runtime);
  },
);

/** Blocks that were written and not flushed: they read as zeros, or as whatever the disk had there. */
async function loseLoaded(directory: string): Promise<void> {
  const random = seededRandom(testSeed());
  const names = await readdir(directory);
  for (const name of names) {
    const [, disk, layer] = /^(.*)-(\d+)\.(?:raw|qcow2)$/.exec(name) ?? [];
    const isTop =
      disk !== undefined && !names.some((each) => each.startsWith(`${disk}-${Number(layer) + 1}.`));
    if (isTop || (disk === undefined && name !== "memory-ranges")) continue;
    await using file = await open(join(directory, name), "r+");
    const { size } = await file.stat();
    for (let at = 0; at < size; at += 1 << 20)
      if (random() < 0.3) await file.write(Buffer.alloc(65_536, random() < 0.5 ? 0 : 0xa5), 0, 65_536, at);
  }
}

test(
  "what a power cut leaves of files that were being loaded is checked, and loaded again",
  slowTest,
  async () => {
    await using node = await openLazyNode(machine, slow);
    const files = await (async () => {
      await using runtime = await node.open();
      const id = await wake(runtime, { name: "cut-off", digest: machine.digest });
      node.link.cut();
      await isHeldUp(runtime, id);
      await runtime.stop(id, { force: true, signal });
      return join(node.root, "qemu", "vms", id, "files-1");
    })();
    // The machine's own layers are above those that were loaded, and were never flushed either: they are left alone here.
    await loseLoaded(files);
    node.link.repair();
    await using runtime = await node.open();
    await runtime.start("cut-off", { signal });
    const sums = await run(runtime, "cut-off", diskSumScript);
    assert.ok(
      sums.split("\n").every((line) => machine.sums.includes(line)),
      `${sums} of ${machine.sums}`,
    );
    await removeAll(node, runtime);
  },
);

interface Woken {
  /** Empty when the manager was killed before it was made. */
  readonly id: string;
}

/** A manager that wakes the machine, and is killed: after the wake, or after so many milliseconds. */
async function wakeAndKill(node: LazyNode, name: string, afterMs: number | "woken"): Promise<Woken> {
  const { address } = node.link;
  const args = [node.root, address, machine.token, machine.digest, name];
  const worker = spawn(process.execPath, [join(import.meta.dirname, "lazy-worker.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(worker, "close");
  let text = "";
  const says = (pattern: RegExp) =>
    new Promise<void>((resolve) => {
      worker.stdout.on("data", () => pattern.test(text) && resolve());
    });
  worker.stdout.setEncoding("utf8").on("data", (piece: string) => (text += piece));
  await Promise.race([says(afterMs === "woken" ? /^[A-Z2-7]{26}$/m : /open/), ended]);
  if (afterMs !== "woken") await pause(afterMs);
  assert.equal(worker.exitCode, null, text);
  worker.kill("SIGKILL");
  await ended;
  return { id: /^[A-Z2-7]{26}$/m.exec(text)?.[0] ?? "" };
}

const rounds = count({ small: 2, full: 20 });

test(`a manager that is killed ${rounds} times, with and without the page server`, slowTest, async (t) => {
  const random = seededRandom(testSeed());
  for (let round = 0; round < rounds; round += 1) {
    await using node = await openLazyNode(machine, slow);
    const { id } = await wakeAndKill(node, "managed", round === 0 ? "woken" : random() * 4_000);
    if (id !== "" && (round === 0 || random() < 0.5)) await killAndWait(await findPageServer(node.root, id));
    await using runtime = await node.open();
    const [vm] = await runtime.list({ signal });
    if (id !== "") assert.equal(vm?.id, id, "a machine that was woken is not lost");
    t.diagnostic(
      `round ${round}: ${id === "" ? "killed before" : "killed after"} the wake, ${vm?.state ?? "no VM"}`,
    );
    const found = vm ? vm.id : await wake(runtime, { name: "managed", digest: machine.digest });
    assert.equal((await runtime.inspect(found, { signal })).state, "running");
    assert.equal(await run(runtime, found, sumScript), machine.sums);
    await becomesLocal(runtime, found);
    assert.ok(await machine.isThere());
    await removeAll(node, runtime);
  }
});
