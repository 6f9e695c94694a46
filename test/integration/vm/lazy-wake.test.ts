/** A machine wakes before its memory and disks are here. Its content is compared by checksums made inside the guest. */
import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Fault } from "@cocoon/core";
import { eventually, requireRoot } from "@cocoon/testkit";
import type { VmRuntime } from "@cocoon/vm";
import {
  openLazyNode,
  putMachineToSleep,
  run,
  sumScript,
  wake,
  type SleepingMachine,
} from "./lazy-harness.ts";

const { signal } = new AbortController();
const patience = { timeoutMs: 240_000, intervalMs: 50 };
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

test("a woken machine answers before its memory has arrived, and is then independent of the registry", async (t) => {
  await using node = await openLazyNode(machine, { bytesPerSecond: 50e6, delayMs: 5 });
  await using runtime = await node.open();
  const began = performance.now();
  const id = await wake(runtime, { name: "lazy", digest: machine.digest });
  const fetched = node.link.received;
  t.diagnostic(
    `runs after ${Math.round(performance.now() - began)} ms, ${fetched} of ${machine.packedBytes} bytes`,
  );
  assert.ok(fetched < machine.packedBytes * 0.5, `${fetched} of ${machine.packedBytes} bytes before it runs`);
  await run(runtime, id, "true");
  await becomesLocal(runtime, id);
  node.link.cut();
  assert.equal(await run(runtime, id, sumScript), machine.sums);
  const { snapshot } = await runtime.snapshots.save(id, { resume: true, signal });
  const copy = await runtime.clone({ name: "copy", snapshot: snapshot.id }, { signal });
  assert.equal(await run(runtime, copy.id, sumScript), machine.sums);
  await runtime.remove(copy.id, { force: true, signal });
  const path = join(node.root, "qemu", "snapshots", snapshot.id, "working-set.json");
  const { order } = JSON.parse(await readFile(path, "utf8")) as { order: unknown[] };
  assert.ok(order.length > 50, `${order.length} chunks were recorded`);
  await runtime.stop(id, { force: true, signal });
  await runtime.start(id, { signal });
  assert.match(machine.sums, new RegExp(await run(runtime, id, "sha256sum /root/content")));
});

test("a machine whose caller's last check refuses never runs, and leaves nothing", async () => {
  await using node = await openLazyNode(machine);
  await using runtime = await node.open();
  const refusal = new Fault("unavailable", "the claim could not be read");
  const seen: string[] = [];
  const beforeRun = async () => {
    for (const { state } of await runtime.list({ signal })) seen.push(state);
    throw refusal;
  };
  const refused = wake(runtime, { name: "refused", digest: machine.digest, beforeRun });
  await assert.rejects(refused, (error) => error === refusal);
  assert.deepEqual(seen, ["creating"]);
  assert.deepEqual(await runtime.list({ signal }), []);
  assert.deepEqual(await readdir(join(node.root, "qemu", "vms")), []);
});
