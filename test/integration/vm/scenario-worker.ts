/**
 * One machine's life in a process of its own, so that the process can have other rights or another disk. Prints what
 * it saw as one JSON line.
 *
 *   node scenario-worker.ts life|full ROOT IMAGES
 */
import assert from "node:assert/strict";
import { rm, statfs, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { getErrorMessage, isFault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import type { VmRuntime } from "@cocoon/vm";

const [scenario = "life", root = "", images = ""] = process.argv.slice(2);
const mebibyte = 1024 * 1024;
const signal = AbortSignal.timeout(400_000);
const machine = { image: demoImageName, cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte };

async function open(): Promise<VmRuntime> {
  const network = await openUserNetwork({ directory: join(root, "network"), firstFreePort: 1024 });
  return openQemuRuntime({
    rootDirectory: root,
    images: openImageLibrary({ directory: images }),
    networks: new Map([["user", network]]),
    path: process.env["PATH"] ?? "",
    signal,
  });
}

async function exitCode(runtime: VmRuntime, ref: string, argv: readonly string[]): Promise<number> {
  await using program = await runtime.exec(ref, { argv }, { signal });
  program.stdout.resume();
  program.stderr.resume();
  return (await program.exited).code;
}

/** Boots, saves, clones, runs a program in both, removes all. */
async function life(): Promise<Record<string, unknown>> {
  await using runtime = await open();
  const source = await runtime.run({ ...machine, name: "source" }, { signal });
  await runtime.waitReady(source.id, { signal });
  const { snapshot } = await runtime.snapshots.save(source.id, { name: "saved", signal });
  const clone = await runtime.clone({ name: "clone", snapshot: snapshot.id }, { signal });
  await runtime.waitReady(clone.id, { signal });
  const codes = [await exitCode(runtime, source.id, ["true"]), await exitCode(runtime, clone.id, ["true"])];
  const files = await runtime.snapshots.withFiles(
    snapshot.id,
    (view) => Promise.resolve(view.files.map(({ name }) => name)),
    { signal },
  );
  const modes = { uid: process.getuid?.(), pids: [source.pid, clone.pid] };
  for (const vm of await runtime.list({ signal })) await runtime.remove(vm.id, { force: true, signal });
  await runtime.snapshots.remove(snapshot.id, { signal });
  return { codes, files, ...modes };
}

/** Saves until the disk is full; the guest must go on, and nothing half made may stay. */
async function full(): Promise<Record<string, unknown>> {
  await using runtime = await open();
  const vm = await runtime.run({ ...machine, name: "hungry" }, { signal });
  await runtime.waitReady(vm.id, { signal });
  let saves = 0;
  let refused: { code: string; text: string } | undefined;
  while (!refused && saves < 50) {
    try {
      await runtime.snapshots.save(vm.id, { name: `save-${saves}`, signal });
      saves += 1;
    } catch (error) {
      refused = { code: isFault(error) ? error.code : "none", text: getErrorMessage(error) };
    }
  }
  const listed = (await runtime.snapshots.list({ signal })).length;
  for (const each of await runtime.snapshots.list({ signal }))
    await runtime.snapshots.remove(each.id, { signal });
  const answered = await exitCode(runtime, vm.id, ["true"]);
  const starved = await starve(runtime, vm.id);
  const { state } = await runtime.inspect(vm.id, { signal });
  await starveForRestart(runtime, vm.id);
  await runtime[Symbol.asyncDispose](); // as a kubelet that restarts
  const restarted = await resumeAfterRestart(vm.id);
  return { saves, refused, listed, answered, starved, state, restarted };
}

async function freeBytes(): Promise<number> {
  const { bavail, bsize } = await statfs(root);
  return bavail * bsize;
}

const ballast = join(root, "ballast");

/** Leaves less room than the guest is about to write. */
async function fillDisk(): Promise<void> {
  await writeFile(ballast, Buffer.alloc((await freeBytes()) - 20 * mebibyte, 1));
}

async function waitFrozen(runtime: VmRuntime): Promise<string> {
  // No client listens while the guest fills the disk, so it may well be frozen before the watch begins.
  await eventually(async () => assert.ok((await freeBytes()) < 8 * mebibyte), { timeoutMs: 120_000 });
  for await (const event of runtime.watch({ signal }))
    // When it is frozen before the watch begins it is listed so, and no change follows.
    if ("vm" in event && event.vm.state === "paused") return event.vm.problem ?? "";
  throw new Error("the watch ended before the guest was frozen");
}

async function starveForRestart(runtime: VmRuntime, id: string): Promise<void> {
  await exitCode(runtime, id, ["sh", "-c", "rm -f /root/big; sync"]);
  await fillDisk();
  // More than the removed file: what it held is written again in place.
  const write = "head -c 140000000 /dev/urandom > /root/more; sync; echo wrote > /root/done";
  await exitCode(runtime, id, ["sh", "-c", `(${write}) </dev/null >/dev/null 2>&1 &`]);
  await waitFrozen(runtime);
}

/** The next process finds the guest frozen, and resumes it once there is room. */
async function resumeAfterRestart(id: string): Promise<Record<string, unknown>> {
  await using runtime = await open();
  const problem = await waitFrozen(runtime);
  await rm(ballast);
  const code = await eventually(
    async () => {
      const found = await exitCode(runtime, id, ["grep", "-q", "wrote", "/root/done"]);
      assert.equal(found, 0);
      return found;
    },
    { timeoutMs: 120_000, signal },
  );
  await runtime.remove(id, { force: true, signal });
  return { problem, code };
}

/** The guest itself fills the host's disk: it is frozen, and goes on where it was once there is room. */
async function starve(runtime: VmRuntime, id: string): Promise<Record<string, unknown>> {
  await fillDisk();
  await using program = await runtime.exec(
    id,
    { argv: ["sh", "-c", "head -c 60000000 /dev/urandom > /root/big; sync; echo wrote"] },
    { signal },
  );
  const problem = await waitFrozen(runtime);
  await rm(ballast); // it resumes by itself
  const [text, exit] = await Promise.all([program.stdout.toArray(), program.exited]);
  return { problem, text: String(text).trim(), code: exit.code };
}

const result = scenario === "full" ? await full() : await life();
process.stdout.write(`${JSON.stringify(result)}\n`);
