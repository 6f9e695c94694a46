/** States and actions. */
import assert from "node:assert/strict";
import { it } from "node:test";
import type { Bench } from "./contract-suite.ts";
import { bootMs, get, put, readCounter, refuses, runIn } from "./harness.ts";

export function describeLifecycle(use: () => Bench): void {
  it("makes a VM that is found by id, name and prefix, and whose name is taken", async () => {
    const { runtime, signal, clone, golden } = use();
    await using vm = await clone("found");
    assert.match(vm.id, /^[A-Z2-7]{26}$/);
    for (const ref of [vm.id, "found", vm.id.slice(0, 8)])
      assert.equal((await runtime.inspect(ref, { signal })).id, vm.id);
    assert.deepEqual(
      (await runtime.list({ signal })).map(({ name, state }) => [name, state]),
      [["found", "running"]],
    );
    await refuses(
      runtime.clone({ name: "found", snapshot: golden }, { signal }),
      "alreadyExists",
      /already exists/,
    );
    assert.equal((await runtime.list({ signal })).length, 1);
  });

  it("refuses bad names and sizes, and leaves nothing behind", async () => {
    const { runtime, harness, signal } = use();
    const base = { image: harness.image, ...harness.small };
    await refuses(runtime.run({ ...base, name: "-bad" }, { signal }), "invalid");
    await refuses(runtime.run({ ...base, name: "a".repeat(64) }, { signal }), "invalid");
    await refuses(
      runtime.run({ ...base, name: "small", memoryBytes: 1024 * 1024 }, { signal }),
      "invalid",
      /memory/,
    );
    await refuses(
      runtime.run({ ...base, name: "small", storageBytes: 1024 }, { signal }),
      "invalid",
      /storage/,
    );
    await refuses(runtime.run({ ...base, name: "none", cpus: 0 }, { signal }), "invalid", /cpu/);
    await refuses(runtime.run({ ...base, name: "many", cpus: 4096 }, { signal }), "invalid", /4096/);
    assert.deepEqual(await runtime.list({ signal }), []);
  });

  it("makes without starting, starts, and takes a second start for success", async () => {
    const { runtime, harness, signal, owned, can } = use();
    const spec = { name: "later", image: harness.image, ...harness.small, start: false };
    await using vm = owned(await runtime.run(spec, { signal }));
    assert.equal(vm.state, "created");
    assert.equal(vm.pid, undefined);
    if (can.pause) await refuses(runtime.pause(vm.id, { signal }), "conflict");
    await refuses(runtime.snapshots.save(vm.id, { signal }), "conflict", /not running/);
    assert.equal((await runtime.start(vm.id, { signal })).state, "running");
    const again = await runtime.start(vm.id, { signal });
    assert.equal(again.state, "running");
    assert.ok(again.pid !== undefined && again.pid > 0);
  });

  it("stops a guest by its power button, and what is on its disk survives the next boot", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("sleeper");
    await put(runtime, vm.id, { path: "/root/kept", text: "still here" });
    assert.equal((await runIn(runtime, vm.id, { argv: ["sync"] })).code, 0);
    const stopped = await runtime.stop(vm.id, { timeoutMs: bootMs, signal });
    assert.equal(stopped.state, "stopped");
    assert.equal(stopped.pid, undefined);
    assert.equal(stopped.lastExit?.reason, "stopped");
    assert.equal((await runtime.stop(vm.id, { signal })).state, "stopped");
    const started = await runtime.start(vm.id, { signal });
    assert.notEqual(started.epoch, vm.epoch);
    await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
    assert.equal(await get(runtime, vm.id, "/root/kept"), "still here");
    assert.equal(await get(runtime, vm.id, "/run/counter"), undefined, "memory must not survive a cold boot");
  });

  it("stops a guest by force at once", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("forced");
    const stopped = await runtime.stop(vm.id, { force: true, signal });
    assert.deepEqual([stopped.state, stopped.lastExit?.reason], ["stopped", "stopped"]);
  });

  it("freezes and thaws a guest", async (t) => {
    const { runtime, signal, clone, can } = use();
    if (!can.pause) return t.skip("this runtime cannot pause");
    await using vm = await clone("frozen");
    const counted = await readCounter(runtime, vm.id);
    assert.equal((await runtime.pause(vm.id, { signal })).state, "paused");
    assert.equal((await runtime.pause(vm.id, { signal })).state, "paused");
    await refuses(runtime.exec(vm.id, { argv: ["true"] }, { signal }), "conflict");
    assert.equal((await runtime.resume(vm.id, { signal })).state, "running");
    assert.equal((await runtime.resume(vm.id, { signal })).state, "running");
    assert.ok((await readCounter(runtime, vm.id)) >= counted);
  });

  it("resets a guest in place", async (t) => {
    const { runtime, signal, clone, can } = use();
    if (!can.reset) return t.skip("this runtime cannot reset");
    await using vm = await clone("reset");
    const reset = await runtime.reset(vm.id, { signal });
    assert.equal(reset.pid, vm.pid);
    assert.notEqual(reset.epoch, vm.epoch);
    await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
    assert.equal(await get(runtime, vm.id, "/run/counter"), undefined);
    assert.equal(await get(runtime, vm.id, "/root/file"), "before");
  });

  it("removes a running VM only by force, frees its name, and leaves nothing", async () => {
    const { runtime, signal, clone, golden, owned } = use();
    await using vm = await clone("gone");
    await refuses(runtime.remove(vm.id, { signal }), "conflict", /force required/);
    await runtime.remove(vm.id, { force: true, signal });
    await refuses(runtime.inspect(vm.id, { signal }), "notFound");
    await refuses(runtime.remove(vm.id, { force: true, signal }), "notFound");
    await using _again = owned(await runtime.clone({ name: "gone", snapshot: golden }, { signal }));
  });

  it("tells a killed VM from a stopped one, and starts it again from its disk", async () => {
    const { runtime, harness, signal, clone } = use();
    await using vm = await clone("victim");
    await harness.kill(await runtime.inspect(vm.id, { signal }));
    const dead = await runtime.inspect(vm.id, { signal });
    assert.equal(dead.state, "stopped");
    assert.notEqual(dead.lastExit?.reason, "stopped");
    assert.equal((await runtime.list({ signal }))[0]?.state, "stopped");
    assert.equal((await runtime.start(vm.id, { signal })).state, "running");
    await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
    assert.equal(await get(runtime, vm.id, "/root/file"), "before");
  });

  it("keeps VMs when the runtime goes, and finds them again", async () => {
    const { runtime, harness, signal, clone, can } = use();
    await using vm = await clone("survivor");
    const counted = await readCounter(runtime, vm.id);
    await using second = await harness.reopen();
    const found = await second.inspect("survivor", { signal });
    assert.deepEqual(
      [found.id, found.state, found.pid],
      [vm.id, "running", (await runtime.inspect(vm.id, { signal })).pid],
    );
    assert.ok((await readCounter(second, vm.id)) >= counted);
    if (!can.pause) return;
    await second.pause(vm.id, { signal });
    assert.equal((await runtime.inspect(vm.id, { signal })).state, "paused");
    await second.resume(vm.id, { signal });
  });
}
