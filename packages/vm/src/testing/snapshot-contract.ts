/** Saving, cloning, forking, going back, moving. */
import assert from "node:assert/strict";
import { it } from "node:test";
import { Fault } from "@cocoon/core";
import type { Bench } from "./contract-suite.ts";
import { bootMs, get, put, readCounter, refuses, runIn } from "./harness.ts";

export function describeSnapshots(use: () => Bench): void {
  it("saves a guest that goes on", async () => {
    const { runtime, signal, clone } = use();
    await using vm = await clone("saved");
    const before = await readCounter(runtime, vm.id);
    const report = await runtime.snapshots.save(vm.id, {
      name: "a-snapshot",
      description: "for now",
      signal,
    });
    try {
      assert.ok(report.pausedMs > 0 && report.pausedMs <= report.tookMs);
      assert.ok((await readCounter(runtime, vm.id)) >= before);
      const found = await runtime.snapshots.inspect("a-snapshot", { signal });
      assert.deepEqual([found.id, found.description, found.vmId], [report.snapshot.id, "for now", vm.id]);
      assert.deepEqual(
        (await runtime.snapshots.list({ vmRef: vm.id, signal })).map(({ id }) => id),
        [found.id],
      );
      assert.deepEqual((await runtime.inspect(vm.id, { signal })).snapshotIds, [found.id]);
      await refuses(
        runtime.snapshots.save(vm.id, { name: "a-snapshot", signal }),
        "alreadyExists",
        /already exists/,
      );
    } finally {
      await runtime.snapshots.remove(report.snapshot.id, { signal });
    }
    assert.deepEqual((await runtime.inspect(vm.id, { signal })).snapshotIds, []);
  });

  it("clones guests that go on from one point, diverge, and have identities of their own", async () => {
    const { runtime, clone } = use();
    await using one = await clone("clone-one");
    await using other = await clone("clone-other");
    assert.ok((await readCounter(runtime, one.id)) > 0 && (await readCounter(runtime, other.id)) > 0);
    await put(runtime, one.id, { path: "/root/file", text: "mine" });
    assert.equal(await get(runtime, other.id, "/root/file"), "before");
    const facts = async (id: string) => {
      const said = async (...argv: string[]) => (await runIn(runtime, id, { argv })).stdout;
      return {
        hostname: (await said("hostname")).trim(),
        random: await said("sh", "-c", "head -c 32 /dev/urandom | od -An -tx1"),
      };
    };
    const [first, second] = [await facts(one.id), await facts(other.id)];
    assert.deepEqual([first.hostname, second.hostname], ["clone-one", "clone-other"]);
    assert.notEqual(first.random, second.random);
    const clockSkewMs = async (id: string) =>
      Math.abs(Number((await runIn(runtime, id, { argv: ["date", "+%s"] })).stdout) * 1000 - Date.now());
    assert.ok((await clockSkewMs(one.id)) < 60_000, "the clone's clock is that of now, not of the snapshot");
  });

  it("runs a clone only after the caller's last check, and leaves nothing when that refuses", async () => {
    const { runtime, signal, golden, owned } = use();
    const spec = { name: "checked", snapshot: golden };
    const refusal = new Fault("unavailable", "the claim could not be read");
    const seen: string[] = [];
    const refuse = async () => {
      for (const { name, state } of await runtime.list({ signal })) seen.push(`${name} ${state}`);
      throw refusal;
    };
    await assert.rejects(runtime.clone(spec, { signal, beforeRun: refuse }), (error) => error === refusal);
    assert.ok(!seen.includes("checked running"), seen.join(", "));
    assert.deepEqual(await runtime.list({ signal }), []);
    assert.equal((await runtime.snapshots.inspect(golden, { signal })).id, golden);
    let checks = 0;
    const beforeRun = () => {
      checks += 1;
      return Promise.resolve();
    };
    await using vm = owned(await runtime.clone(spec, { signal, beforeRun }));
    assert.deepEqual([checks, vm.state], [1, "running"]);
  });

  it("refuses a clone that is smaller than its snapshot", async () => {
    const { runtime, signal, golden } = use();
    const tiny = { name: "tiny", snapshot: golden };
    await refuses(
      runtime.clone({ ...tiny, memoryBytes: 64 * 1024 * 1024 - 1 }, { signal }),
      "invalid",
      /below snapshot minimum/,
    );
    await refuses(
      runtime.clone({ ...tiny, storageBytes: 4096 }, { signal }),
      "invalid",
      /below snapshot minimum/,
    );
    assert.deepEqual(await runtime.list({ signal }), []);
  });

  it("forks a guest that runs; both go on", async () => {
    const { runtime, signal, clone, owned } = use();
    await using source = await clone("source");
    await put(runtime, source.id, { path: "/run/in-memory", text: "shared past" });
    await using fork = owned(await runtime.fork({ name: "fork", source: source.id }, { signal }));
    assert.equal(fork.origin.kind, "fork");
    await runtime.waitReady(fork.id, { signal: AbortSignal.timeout(bootMs) });
    assert.equal(await get(runtime, fork.id, "/run/in-memory"), "shared past");
    const counted = [await readCounter(runtime, source.id), await readCounter(runtime, fork.id)];
    assert.ok(counted.every((count) => count > 0));
    await runtime.remove(source.id, { force: true, signal });
    assert.equal(await get(runtime, fork.id, "/run/in-memory"), "shared past");
  });

  it("saves a clone again, and its clone stands on nothing but that", async () => {
    const { runtime, signal, clone, owned } = use();
    const second = await (async () => {
      await using first = await clone("first-generation");
      await put(runtime, first.id, { path: "/root/file", text: "second generation" });
      await put(runtime, first.id, { path: "/run/in-memory", text: "also this" });
      return (await runtime.snapshots.save(first.id, { signal })).snapshot;
    })();
    await using vm = owned(
      await runtime.clone({ name: "second-generation", snapshot: second.id }, { signal }),
    );
    await runtime.snapshots.remove(second.id, { signal });
    await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
    assert.equal(await get(runtime, vm.id, "/root/file"), "second generation");
    assert.equal(await get(runtime, vm.id, "/run/in-memory"), "also this");
    assert.ok((await readCounter(runtime, vm.id)) > 0);
  });

  it("puts a VM back to its own snapshot, and to no other's", async () => {
    const { runtime, signal, clone, golden } = use();
    await using vm = await clone("restored");
    const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
    try {
      await put(runtime, vm.id, { path: "/root/file", text: "to be forgotten" });
      await put(runtime, vm.id, { path: "/run/new", text: "to be forgotten" });
      await refuses(runtime.restore(vm.id, golden, { signal }), "conflict", /does not belong/);
      const restored = await runtime.restore(vm.id, snapshot.id, { signal });
      assert.deepEqual([restored.id, restored.state], [vm.id, "running"]);
      assert.notEqual(restored.epoch, vm.epoch);
      await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
      assert.equal(await get(runtime, vm.id, "/root/file"), "before");
      assert.equal(await get(runtime, vm.id, "/run/new"), undefined);
      assert.ok((await readCounter(runtime, vm.id)) > 0);
    } finally {
      await runtime.snapshots.remove(snapshot.id, { signal });
    }
  });

  it("exports a snapshot and imports it under another name; a clone of that goes on", async () => {
    const { runtime, signal, golden, owned } = use();
    for (const gzip of [false, true]) {
      const archive = await runtime.snapshots.export(golden, { gzip, signal });
      const name = `imported-${gzip}`;
      const imported = await runtime.snapshots.import(archive, { name, description: "moved", signal });
      try {
        assert.notEqual(imported.id, golden);
        assert.deepEqual([imported.name, imported.description], [name, "moved"]);
        if (gzip) continue;
        await using vm = owned(await runtime.clone({ name: "moved", snapshot: imported.id }, { signal }));
        await runtime.waitReady(vm.id, { signal: AbortSignal.timeout(bootMs) });
        assert.equal(await get(runtime, vm.id, "/root/file"), "before");
        assert.ok((await readCounter(runtime, vm.id)) > 0);
      } finally {
        await runtime.snapshots.remove(imported.id, { signal });
      }
    }
  });

  it("imports nothing of an archive that is cut off or is none", async () => {
    const { runtime, signal, golden } = use();
    const before = await runtime.snapshots.list({ signal });
    const { Readable } = await import("node:stream");
    await refuses(
      runtime.snapshots.import(Readable.from([Buffer.alloc(1024)]), { signal }),
      "invalid",
      /snapshot.json not found/,
    );
    const archive = await runtime.snapshots.export(golden, { signal });
    const cut = Readable.from(firstBytes(archive, 256 * 1024));
    await refuses(
      runtime.snapshots.import(cut, { name: "cut", signal }),
      "invalid",
      /invalid snapshot archive/,
    );
    assert.deepEqual(await runtime.snapshots.list({ signal }), before);
  });
}

async function* firstBytes(stream: AsyncIterable<Buffer>, count: number): AsyncGenerator<Buffer, void, void> {
  let left = count;
  for await (const piece of stream) {
    yield piece.subarray(0, left);
    left -= piece.length;
    if (left <= 0) return;
  }
}
