/** As root, QEMU runs in namespaces of its own: it sees its machine and little else (issue 18, item 22). */
import assert from "node:assert/strict";
import { access, chmod, readFile, readdir, readlink } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { requireRoot, temporaryDirectory } from "@cocoon/testkit";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { openTestNetwork } from "../vm-network/namespaces.ts";
import { leftoversIn, openQemuHarness } from "./qemu-harness.ts";

const { signal } = new AbortController();
const ready = () => AbortSignal.timeout(300_000);
const uid = 2_000_200_000;
const runAs = { uid, gid: uid, count: 100 };

async function run(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  return (await text(program.stdout)).trim();
}

async function isOwn({ pid }: Vm, namespace: "mnt" | "net" | "ipc"): Promise<boolean> {
  return (await readlink(`/proc/${pid}/ns/${namespace}`)) !== (await readlink(`/proc/self/ns/${namespace}`));
}

test(
  "QEMU sees its own machine, the system's programs, and nothing else of the host",
  { timeout: 900_000 },
  async () => {
    requireRoot("make namespaces and cgroups");
    await using harness = await openQemuHarness({ signal, runAs });
    const { runtime, root } = harness;
    const machine = { image: harness.image, ...harness.small };
    const vm = await runtime.run({ ...machine, name: "jailed" }, { signal });
    const other = await runtime.run({ ...machine, name: "other", nics: 0 }, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    await runtime.waitReady(other.id, { signal: ready() });
    for (const each of [vm, other]) {
      assert.deepEqual([await isOwn(each, "mnt"), await isOwn(each, "ipc")], [true, true], each.name);
      const seen = await readdir(`/proc/${each.pid}/root`);
      const allowed = ["bin", "dev", "etc", "lib", "lib64", "run", "sbin", "usr", root.split("/")[1] ?? ""];
      assert.deepEqual(
        seen.filter((name) => !allowed.includes(name)),
        [],
      );
      const machines = await readdir(`/proc/${each.pid}/root${join(root, "qemu", "vms")}`);
      assert.deepEqual(machines, [each.id], "no other machine is in sight");
      assert.match(await readFile(`/proc/${each.pid}/status`, "latin1"), /^NoNewPrivs:\s+1$/m);
    }
    // The user network is the host's: QEMU connects and listens there for its guest.
    assert.deepEqual([await isOwn(vm, "net"), await isOwn(other, "net")], [false, true]);
    assert.match(await readFile(`/proc/${other.pid}/net/dev`, "latin1"), /^[^:]*lo:[^:]*$/m);
    await assert.rejects(access(`/proc/${vm.pid}/root/root`), { code: "ENOENT" });

    // Everything works from in there: a save page by page, a clone of it, a new disk layer, a cold boot.
    await run(runtime, vm, "echo kept > /root/file; sync");
    const { snapshot } = await runtime.snapshots.save(vm.id, { signal });
    const description = JSON.parse(
      await readFile(join(root, "qemu", "snapshots", snapshot.id, "config.json"), "utf8"),
    ) as { memory: string };
    assert.equal(description.memory, "pages");
    const clone = await runtime.clone({ name: "clone", snapshot: snapshot.id }, { signal });
    await runtime.waitReady(clone.id, { signal: ready() });
    assert.equal(await run(runtime, clone, "cat /root/file; hostname"), "kept\nclone");
    await runtime.stop(vm.id, { force: true, signal });
    await runtime.start(vm.id, { signal });
    await runtime.waitReady(vm.id, { signal: ready() });
    assert.equal(await run(runtime, vm, "cat /root/file"), "kept");
    for (const each of [vm, other, clone]) await runtime.remove(each.id, { force: true, signal });
    await runtime.snapshots.remove(snapshot.id, { signal });
    assert.deepEqual(await leftoversIn(root), []);
  },
);

test(
  "a bridged QEMU has its tap and no network, and finds the tap again after the host restarted",
  { timeout: 600_000 },
  async () => {
    requireRoot("make namespaces and cgroups");
    await using wire = await openTestNetwork();
    await using directory = await temporaryDirectory();
    await chmod(directory.path, 0o711);
    const worker = join(import.meta.dirname, "jail-worker.ts");
    const ran = await wire.inside(process.execPath, worker, directory.path, String(uid + 50));
    assert.equal(ran.code, 0, ran.stderr);
    const { sent, ...seen } = JSON.parse(ran.stdout) as Record<string, unknown> & { sent: number };
    assert.deepEqual(seen, { reached: true, sameNetwork: false, interfaces: ["lo:"], reachedAgain: true });
    assert.ok(sent > 0, "its traffic is counted at the tap");
  },
);
