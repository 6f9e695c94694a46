/**
 * A manager that is killed at any moment: nothing it left may leak, no VM it had made may be lost, no guest may stay
 * frozen. A worker does things to VMs and is killed by SIGKILL at a random moment; then the store is opened anew.
 */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { count, seededRandom, testSeed } from "@cocoon/testkit";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { leftoversIn, openQemuHarness, qemuProcessesIn } from "./qemu-harness.ts";

const rounds = count({ small: 4, full: 100 });

interface Line {
  readonly ready?: boolean;
  readonly begin?: { readonly op: string; readonly vm?: string };
  readonly done?: { readonly op: string; readonly vm?: string };
}

interface Killed {
  readonly lines: readonly Line[];
  readonly unfinished: readonly NonNullable<Line["begin"]>[];
}

async function workUntilKilled(args: readonly string[], afterMs: number): Promise<Killed> {
  const worker = spawn(process.execPath, [join(import.meta.dirname, "kill-worker.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  const ready = Promise.withResolvers<void>();
  worker.stdout.setEncoding("utf8").on("data", (piece: string) => {
    text += piece;
    if (text.includes('"ready"')) ready.resolve();
  });
  const ended = once(worker, "close");
  await Promise.race([ready.promise, ended]);
  await new Promise((resolve) => setTimeout(resolve, afterMs));
  assert.equal(worker.exitCode, null, `the worker ended by itself: ${text}`);
  worker.kill("SIGKILL");
  await ended;
  const lines = text
    .split("\n")
    .filter((line) => line.endsWith("}"))
    .map((line) => JSON.parse(line) as Line);
  const unfinished: NonNullable<Line["begin"]>[] = [];
  for (const { begin, done } of lines) {
    if (begin) unfinished.push(begin);
    if (done)
      unfinished.splice(
        unfinished.findIndex((each) => each.op === done.op && each.vm === done.vm),
        1,
      );
  }
  return { lines, unfinished };
}

/** What must be there: everything that was made and not begun to be removed, in a state that fits. */
function assertNothingLost({ lines, unfinished }: Killed, vms: readonly Vm[]): void {
  const byName = new Map(vms.map((vm) => [vm.name, vm]));
  const removed = new Set(lines.flatMap(({ begin }) => (begin?.op === "remove" ? [begin.vm] : [])));
  for (const { done } of lines) {
    if (!done?.vm || (done.op !== "clone" && done.op !== "fork") || removed.has(done.vm)) continue;
    const vm = byName.get(done.vm);
    assert.ok(vm, `${done.vm} was made, and is lost`);
    const inFlight = unfinished.filter((each) => each.vm === done.vm).map((each) => each.op);
    // A guest that was being saved goes on; only what was to stop it, or to start it anew, may have left it stopped.
    const mayBeStopped = inFlight.some((op) => op === "stop" || op === "start" || op === "restore");
    const mayBePaused =
      inFlight.some((op) => op === "pause" || op === "resume") || betweenPauseAndResume(lines, done.vm);
    const wasBouncing = betweenStopAndStart(lines, done.vm);
    if (vm.state === "running") continue;
    assert.ok(
      (vm.state === "stopped" && (mayBeStopped || wasBouncing)) || (vm.state === "paused" && mayBePaused),
      `${done.vm} is ${vm.state} (${JSON.stringify(vm.lastExit)}); in flight: ${inFlight.join(", ") || "nothing"}`,
    );
  }
}

function last(lines: readonly Line[], vm: string, ops: readonly string[]): string | undefined {
  return lines.findLast(({ done }) => done?.vm === vm && ops.includes(done.op))?.done?.op;
}

function betweenPauseAndResume(lines: readonly Line[], vm: string): boolean {
  return last(lines, vm, ["pause", "resume"]) === "pause";
}

function betweenStopAndStart(lines: readonly Line[], vm: string): boolean {
  return last(lines, vm, ["stop", "start"]) === "stop";
}

/** Processes, names, addresses and snapshots are those of the VMs that there are, and no work is left lying about. */
async function assertNothingLeaked(root: string, runtime: VmRuntime, vms: readonly Vm[]): Promise<void> {
  const live = vms.filter((vm) => vm.pid !== undefined).map((vm) => `process ${vm.id}`);
  assert.deepEqual([...(await qemuProcessesIn(root))].sort(), live.sort());
  const found = await leftoversIn(root);
  assert.deepEqual(
    found.filter((name) => name.startsWith("work/") || name.startsWith("trash/")),
    [],
  );
  const names = vms.map((vm) => `names/${vm.name}`).sort();
  assert.deepEqual(found.filter((name) => name.startsWith("names/")).sort(), names);
  assert.equal(found.filter((name) => name.startsWith("network/")).length, vms.length);
  for (const vm of vms) assert.ok(!(await readdir(join(root, "qemu", "vms", vm.id))).includes("intent.json"));
  const signal = AbortSignal.timeout(60_000);
  const snapshots = (await runtime.snapshots.list({ signal })).map(({ id }) => `snapshots/${id}`).sort();
  assert.deepEqual(found.filter((name) => name.startsWith("snapshots/")).sort(), snapshots);
}

/** A guest that goes on answers; one that does not is shown with what it said last. */
async function assertAnswers(runtime: VmRuntime, { id }: Vm, { lines }: Killed): Promise<void> {
  try {
    await runtime.waitReady(id, { signal: AbortSignal.timeout(180_000) });
  } catch (error) {
    const signal = AbortSignal.timeout(10_000);
    const said = (await runtime.readConsole(id, { signal, tailBytes: 2_000 })).toString("utf8");
    const vm = JSON.stringify(await runtime.inspect(id, { signal }));
    throw new Error(`${vm}\n${JSON.stringify(lines)}\n${said}`, { cause: error });
  }
}

test(`a manager that is killed ${rounds} times loses and leaks nothing`, { timeout: 3_600_000 }, async () => {
  const seed = testSeed();
  const random = seededRandom(seed);
  const setUp = AbortSignal.timeout(300_000);
  await using harness = await openQemuHarness({ signal: new AbortController().signal });
  const first = await harness.runtime.run(
    { name: "golden", image: harness.image, ...harness.small },
    { signal: setUp },
  );
  await harness.runtime.waitReady(first.id, { signal: setUp });
  const { snapshot } = await harness.runtime.snapshots.save(first.id, { name: "golden", signal: setUp });
  await harness.runtime.remove(first.id, { force: true, signal: setUp });

  for (let round = 0; round < rounds; round += 1) {
    const signal = AbortSignal.timeout(240_000);
    const args = [harness.root, String(seed + round), snapshot.id];
    const killed = await workUntilKilled(args, random() * 4_000);
    await using runtime = await harness.reopen();
    const vms = await runtime.list({ signal });
    assertNothingLost(killed, vms);
    await assertNothingLeaked(harness.root, runtime, vms);
    const survivor = vms.find((vm) => vm.state === "running");
    if (survivor) await assertAnswers(runtime, survivor, killed);
    for (const vm of vms) await runtime.remove(vm.id, { force: true, signal });
    for (const { id } of await runtime.snapshots.list({ signal }))
      if (id !== snapshot.id) await runtime.snapshots.remove(id, { signal });
  }

  await harness.runtime.snapshots.remove(snapshot.id, { signal: AbortSignal.timeout(60_000) });
  assert.deepEqual(await leftoversIn(harness.root), []);
});
