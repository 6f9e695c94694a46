/** Guests that do not boot: reported, reset in bounds, and their disks can still be saved (issue 18, items 17 and 31). */
import assert from "node:assert/strict";
import { rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { eventually } from "@cocoon/testkit";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { openQemuHarness, openQemuRuntimeIn } from "./qemu-harness.ts";

const { signal } = new AbortController();
const ready = () => AbortSignal.timeout(300_000);

/** A kernel whose first instruction is a jump to itself: boot protocol 2.0, one sector of setup code. */
function buildHangingKernel(): Buffer {
  const kernel = Buffer.alloc(4 * 512);
  kernel.writeUInt8(1, 0x1f1); // sectors of setup code
  kernel.writeUInt16LE(0xaa55, 0x1fe);
  kernel.writeUInt16LE(0xfeeb, 0x200); // jmp -2
  kernel.write("HdrS", 0x202);
  kernel.writeUInt16LE(0x0200, 0x206);
  kernel.writeUInt8(1, 0x211); // loaded high
  return kernel;
}

async function run(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  return (await program.stdout.toArray()).join("").trim();
}

test("a guest that hangs at boot is reset twice, then reported with its console", async () => {
  await using harness = await openQemuHarness({ signal, bootSilenceMs: 3_000 });
  const { runtime, root } = harness;
  const vm = await runtime.run({ name: "hangs", image: harness.image, ...harness.small }, { signal });
  await runtime.stop(vm.id, { force: true, signal });
  const kernel = join(root, "qemu", "vms", vm.id, "files-1", "kernel");
  await rename(kernel, `${kernel}.away`);
  await writeFile(kernel, buildHangingKernel());
  await runtime.start(vm.id, { signal });
  const epochs = new Set<string>();
  await eventually(
    async () => {
      const now = await runtime.inspect(vm.id, { signal });
      epochs.add(now.epoch);
      assert.match(
        now.problem ?? "",
        /does not boot and was left as it is \(2 resets\); last console lines: /,
      );
    },
    { signal, timeoutMs: 60_000 },
  );
  assert.equal(epochs.size, 3, "the first start and two resets");
  await runtime.stop(vm.id, { force: true, signal });
  await rename(`${kernel}.away`, kernel);
  await using patient = await openQemuRuntimeIn(root, { signal });
  await patient.start(vm.id, { signal });
  const after = await patient.waitReady(vm.id, { signal: ready() });
  assert.equal(after.problem, undefined);
});

test("the disks of a machine that cannot boot are saved as they are, and boot elsewhere", async () => {
  await using harness = await openQemuHarness({ signal });
  const { runtime, root } = harness;
  const vm = await runtime.run({ name: "ill", image: harness.image, ...harness.small }, { signal });
  await runtime.waitReady(vm.id, { signal: ready() });
  await run(runtime, vm, "echo precious > /root/file; sync");
  await assert.rejects(runtime.snapshots.save(vm.id, { disksOnly: true, signal }), (error) =>
    isFault(error, "conflict"),
  );
  await runtime.stop(vm.id, { force: true, signal });
  // Without its kernel it cannot be started, which is what brings it into the state `error`.
  const kernel = join(root, "qemu", "vms", vm.id, "files-1", "kernel");
  await rename(kernel, `${kernel}.away`);
  await assert.rejects(runtime.start(vm.id, { signal }));
  assert.equal((await runtime.inspect(vm.id, { signal })).state, "error");
  await rename(`${kernel}.away`, kernel);
  const { snapshot } = await runtime.snapshots.save(vm.id, { name: "as-it-is", disksOnly: true, signal });
  await runtime.remove(vm.id, { force: true, signal });
  const healed = await runtime.clone({ name: "healed", snapshot: snapshot.id }, { signal });
  await runtime.waitReady(healed.id, { signal: ready() });
  assert.equal(await run(runtime, healed, "cat /root/file; hostname"), "precious\nhealed");
});
