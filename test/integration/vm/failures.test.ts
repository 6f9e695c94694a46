/** What happens when things break: each has a defined outcome, and none of them is a lost or a frozen machine. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { readFile, readdir, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { eventually } from "@cocoon/testkit";
import { isFault } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import type { RuntimeHarness } from "@cocoon/vm/testing";
import { leftoversIn, openQemuHarness } from "./qemu-harness.ts";

const { signal } = new AbortController();

describe("failures of a QEMU host", () => {
  let harness: RuntimeHarness & { readonly root: string };
  let golden = "";

  before(async () => {
    harness = await openQemuHarness({ signal });
    const vm = await harness.runtime.run(
      { name: "golden", image: harness.image, ...harness.small },
      { signal },
    );
    await harness.runtime.waitReady(vm.id, { signal: AbortSignal.timeout(180_000) });
    golden = (await harness.runtime.snapshots.save(vm.id, { name: "golden", signal })).snapshot.id;
    await harness.runtime.remove(vm.id, { force: true, signal });
  });

  after(async () => {
    for (const vm of await harness.runtime.list({ signal }))
      await harness.runtime.remove(vm.id, { force: true, signal });
    await harness.runtime.snapshots.remove(golden, { signal });
    const left = await leftoversIn(harness.root);
    await harness[Symbol.asyncDispose]();
    assert.deepEqual(left, []);
  });

  async function clone(name: string): Promise<Vm & AsyncDisposable & { readonly directory: string }> {
    const { id } = await harness.runtime.clone({ name, snapshot: golden }, { signal });
    // Until it is ready the runtime itself still writes its record, over what a test puts there.
    const vm = await harness.runtime.waitReady(id, { signal: AbortSignal.timeout(180_000) });
    const remove = () => harness.runtime.remove(vm.id, { force: true, signal });
    return { ...vm, directory: join(harness.root, "qemu", "vms", vm.id), [Symbol.asyncDispose]: remove };
  }

  /** Speaks QMP by hand, as a manager would that is about to die. */
  async function qmp(directory: string, ...commands: readonly object[]): Promise<string> {
    const socket = connect(join(directory, "qmp.sock"));
    let text = "";
    socket.setEncoding("utf8").on("data", (piece: string) => (text += piece));
    await once(socket, "connect");
    for (const command of [{ execute: "qmp_capabilities" }, ...commands])
      socket.write(`${JSON.stringify(command)}\n`);
    await eventually(() => assert.equal(text.match(/"return"|"error"/g)?.length, commands.length + 1));
    socket.destroy();
    return text;
  }

  it("lets a guest go on that was frozen by a save whose process died", async () => {
    await using vm = await clone("frozen-by-save");
    const record = JSON.parse(await readFile(join(vm.directory, "vm.json"), "utf8")) as { disks: unknown };
    await qmp(vm.directory, { execute: "stop" });
    await writeFile(
      join(vm.directory, "intent.json"),
      JSON.stringify({ kind: "save", wasRunning: true, disksAfter: record.disks }),
    );
    await using runtime = await harness.reopen();
    assert.equal((await runtime.inspect(vm.id, { signal })).state, "running");
    assert.match(await qmp(vm.directory, { execute: "query-status" }), /"running": true/);
    assert.ok(!(await readdir(vm.directory)).includes("intent.json"));
  });

  it("finds out which disk layer is in use when a save died after switching it", async () => {
    await using vm = await clone("switched");
    type Disk = { readOnly: boolean; layers: { file: string; format: string }[] };
    const record = JSON.parse(await readFile(join(vm.directory, "vm.json"), "utf8")) as {
      files: string;
      disks: Disk[];
    };
    const [disk] = record.disks;
    assert.ok(disk);
    const files = join(vm.directory, record.files);
    const top = disk.layers.at(-1)?.file ?? "";
    execFileSync("qemu-img", [
      "create",
      "-q",
      "-f",
      "qcow2",
      "-b",
      top,
      "-F",
      "qcow2",
      join(files, "root-9.qcow2"),
    ]);
    const disksAfter = record.disks.map((each) =>
      each === disk ? { ...disk, layers: [...disk.layers, { file: "root-9.qcow2", format: "qcow2" }] } : each,
    );
    await writeFile(
      join(vm.directory, "intent.json"),
      JSON.stringify({ kind: "save", wasRunning: true, disksAfter }),
    );
    const said = await qmp(
      vm.directory,
      { execute: "stop" },
      {
        execute: "blockdev-snapshot-sync",
        arguments: {
          "node-name": `disk0-layer${/(\d+)\.qcow2$/.exec(top)?.[1]}`,
          "snapshot-file": `${record.files}/root-9.qcow2`,
          "snapshot-node-name": "disk0-layer9",
          format: "qcow2",
          mode: "existing",
        },
      },
    );
    assert.doesNotMatch(said, /"error"/);
    await using runtime = await harness.reopen();
    const after = await runtime.inspect(vm.id, { signal });
    assert.deepEqual([after.state, after.disks[0]?.path.endsWith("root-9.qcow2")], ["running", true]);
    const saved = await runtime.snapshots.save(vm.id, { signal });
    await runtime.snapshots.remove(saved.snapshot.id, { signal });
  });

  it("saves a machine again after a save died between adding a disk layer and its intent", async () => {
    await using vm = await clone("layer-left");
    const record = JSON.parse(await readFile(join(vm.directory, "vm.json"), "utf8")) as {
      files: string;
      disks: { layers: { file: string }[] }[];
    };
    const top = record.disks[0]?.layers.at(-1)?.file ?? "";
    const number = Number(/-(\d+)\./.exec(top)?.[1]) + 1;
    const left = `root-${number}.qcow2`;
    const files = join(vm.directory, record.files);
    execFileSync("qemu-img", ["create", "-q", "-f", "qcow2", "-b", top, "-F", "qcow2", join(files, left)]);
    const said = await qmp(vm.directory, {
      execute: "blockdev-add",
      arguments: {
        driver: "qcow2",
        "node-name": `disk0-layer${number}`,
        backing: null,
        file: {
          driver: "file",
          filename: `${record.files}/${left}`,
          "node-name": `disk0-file${number}`,
        },
      },
    });
    assert.doesNotMatch(said, /"error"/);
    await using runtime = await harness.reopen();
    const { snapshot } = await runtime.snapshots.save(vm.id, { name: "layer-left", signal });
    await runtime.snapshots.remove(snapshot.id, { signal });
    assert.equal((await runtime.inspect(vm.id, { signal })).state, "running");
  });

  it("removes a VM that was only half made, process and all", async () => {
    const vm = await clone("half-made");
    const path = join(vm.directory, "vm.json");
    const { process: _process, ...record } = JSON.parse(await readFile(path, "utf8")) as Record<
      string,
      unknown
    >;
    await writeFile(path, JSON.stringify({ ...record, state: "creating" }));
    await using runtime = await harness.reopen();
    assert.deepEqual(await runtime.list({ signal }), []);
    assert.deepEqual(
      (await leftoversIn(harness.root)).filter((name) => name.includes(vm.id)),
      [],
    );
    await using _again = await clone("half-made"); // the name is free, and this one is removed at the end
    await assert.rejects(runtime.inspect(vm.id, { signal }), (error) => isFault(error, "notFound"));
  });

  it("ends a process that was started for a VM and never written down", async () => {
    await using vm = await clone("stray");
    const path = join(vm.directory, "vm.json");
    const { process: _process, ...record } = JSON.parse(await readFile(path, "utf8")) as Record<
      string,
      unknown
    >;
    await writeFile(path, JSON.stringify({ ...record, state: "stopped" }));
    await writeFile(join(vm.directory, "intent.json"), JSON.stringify({ kind: "start" }));
    await using runtime = await harness.reopen();
    assert.equal((await runtime.inspect(vm.id, { signal })).state, "stopped");
    assert.deepEqual(
      (await leftoversIn(harness.root)).filter((name) => name.startsWith("process")),
      [],
    );
    assert.equal((await runtime.start(vm.id, { signal })).state, "running");
  });

  it("shows a VM with a damaged state file as broken, touches nothing, and removes it by force", async () => {
    const vm = await clone("damaged");
    await using healthy = await clone("healthy");
    await writeFile(join(vm.directory, "vm.json"), "{ not json");
    await using runtime = await harness.reopen();
    const shown = await runtime.inspect("damaged", { signal });
    assert.equal(shown.state, "error");
    assert.match(shown.problem ?? "", /damaged.*vm\.json\.previous/);
    assert.equal((await runtime.inspect(healthy.id, { signal })).state, "running");
    assert.ok((await stat(join(vm.directory, "vm.json.previous"))).size > 0);
    await assert.rejects(runtime.start(vm.id, { signal }), /damaged/);
    await assert.rejects(runtime.remove(vm.id, { signal }), (error) => isFault(error, "conflict"));
    await runtime.remove(vm.id, { force: true, signal });
    assert.deepEqual(
      (await leftoversIn(harness.root)).filter((name) => name.includes(vm.id)),
      [],
    );
  });

  it("says that QEMU crashed, and boots the VM again from its disk", async () => {
    await using vm = await clone("crashing");
    const { pid } = await harness.runtime.inspect(vm.id, { signal });
    assert.ok(pid);
    process.kill(pid, "SIGSEGV");
    const dead = await eventually(async () => {
      const found = await harness.runtime.inspect(vm.id, { signal });
      assert.equal(found.state, "stopped");
      assert.equal(found.lastExit?.reason, "crashed");
      return found;
    });
    assert.equal(dead.pid, undefined);
    assert.equal((await harness.runtime.start(vm.id, { signal })).state, "running");
  });

  it("does not take another process for its own when the pid is used again", async () => {
    await using vm = await clone("reused-pid");
    const path = join(vm.directory, "vm.json");
    const record = JSON.parse(await readFile(path, "utf8")) as {
      process: { pid: number; startTicks: number };
    };
    const { pid } = record.process;
    record.process = { ...record.process, pid: process.pid };
    await writeFile(path, JSON.stringify(record));
    assert.equal((await harness.runtime.inspect(vm.id, { signal })).state, "stopped");
    process.kill(pid, "SIGKILL");
  });
});
