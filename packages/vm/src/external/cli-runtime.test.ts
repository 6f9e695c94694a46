/** The driver over a script that answers as the Go command does, and records how it was called. */
import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import type { VmRuntime } from "../runtime.ts";
import { openCliRuntime } from "./open-cli.ts";

interface GoCocoon extends AsyncDisposable {
  readonly runtime: VmRuntime;
  /** Command lines since the last call, without those that only read. */
  calls(): Promise<readonly string[]>;
}

interface Answers {
  readonly vintage: "base" | "newest";
  readonly agent?: boolean;
  readonly windows?: boolean;
  readonly saveFails?: boolean;
}

const nic =
  '{"tap":"t","mac":"02:00:00:00:00:01","num_queues":2,"queue_size":512,"network":{"ip":"10.0.0.9"}}';

function script(directory: string, answers: Answers): string {
  const { vintage, agent, windows, saveFails } = answers;
  const newest = vintage === "newest";
  const config = `{"name":"vm1","cpu":2,"memory":1024,"image":"img"${windows ? ',"windows":true' : ""}}`;
  const vm = `{"id":"VMID","hypervisor":"cloud-hypervisor","state":"running","pid":1,"config":${config},"network_configs":[${nic}]}`;
  const flags = newest ? "--restore-mode --pull --nics" : "--cpu --memory --storage --on-demand --pull";
  return `#!/bin/sh
case "$*" in
version) echo "Version: v${newest ? "0.5.7" : "0.3.8"}"; exit;;
"vm --help") printf '%s' '${newest ? "  exec x\n  logs x\n  net x\n" : "  run x\n"}'; exit;;
"vm clone --help") echo "${flags}"; exit;;
"vm run --help") echo "--cpu --memory --storage --fc --no-direct-io"; exit;;
esac
echo "$*" >> ${directory}/calls
case "$*" in
"vm exec"*) ${agent ? 'shift 4; exec "$@"' : "echo 'Error: dial vsock: connection refused' >&2; exit 1"};;
"vm logs"*) echo "hypervisor log";;
"vm list"*) echo '[${vm}]';;
"vm net"*|"snapshot rm"*) ;;
"vm inspect"*|"vm clone"*) echo '${vm}';;
"snapshot save"*) ${saveFails ? "echo 'Error: disk broke' >&2; exit 1" : ":"};;
"snapshot inspect"*) echo '{"id":"SNAP","name":"x","image":"img","hypervisor":"cloud-hypervisor","nics":1}';;
"image import"*) cat > ${directory}/imported;;
"image inspect"*) echo '{"id":"sha256:aa","name":"img","type":"cloudimg","size":3}';;
*) echo "Error: unknown command" >&2; exit 1;;
esac
`;
}

async function openGoCocoon(answers: Answers): Promise<GoCocoon & { readonly directory: string }> {
  const directory = await temporaryDirectory();
  const command = join(directory.path, "cocoon");
  await writeFile(command, script(directory.path, answers), { mode: 0o755 });
  const runtime = await openCliRuntime({
    command: [command],
    sudo: "never",
    rootDirectory: directory.path,
    env: { PATH: "/usr/bin:/bin" },
    signal: AbortSignal.timeout(60_000),
  });
  return {
    runtime,
    directory: directory.path,
    calls: async () => {
      const lines = (await readFile(join(directory.path, "calls"), "utf8")).trim().split("\n");
      await writeFile(join(directory.path, "calls"), "");
      return lines.filter((line) => !/^(vm inspect|vm list|snapshot inspect|image inspect)/.test(line));
    },
    [Symbol.asyncDispose]: async () => {
      await runtime[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

const notSupported = (error: unknown) => isFault(error, "notSupported");

test("a guest whose agent does not answer cannot run programs; one with an agent can", async ({ signal }) => {
  await using without = await openGoCocoon({ vintage: "newest" });
  await assert.rejects(without.runtime.exec("vm1", { argv: ["id"] }, { signal }), notSupported);
  await using with_ = await openGoCocoon({ vintage: "newest", agent: true });
  await using program = await with_.runtime.exec("vm1", { argv: ["echo", "hello"] }, { signal });
  assert.equal((await text(program.stdout)).trim(), "hello");
  await using again = await with_.runtime.exec("vm1", { argv: ["false"] }, { signal });
  assert.deepEqual(await again.exited, { code: 1 });
  assert.deepEqual(await with_.calls(), [
    "vm exec VMID -- true",
    "vm exec VMID -- echo hello",
    "vm exec VMID -- false",
  ]);
  await using old = await openGoCocoon({ vintage: "base", agent: true });
  await assert.rejects(old.runtime.exec("vm1", { argv: ["id"] }, { signal }), notSupported);
});

test("a Windows guest is saved without interfaces, and has them again whatever happens", async ({
  signal,
}) => {
  const line = "snapshot save --name nap VMID";
  const around = ["vm net --nics 0 VMID", line, "vm net --nics 1 VMID"];
  await using good = await openGoCocoon({ vintage: "newest", windows: true });
  await good.runtime.snapshots.save("vm1", { name: "nap", signal });
  assert.deepEqual(await good.calls(), around);
  await using bad = await openGoCocoon({ vintage: "newest", windows: true, saveFails: true });
  await assert.rejects(bad.runtime.snapshots.save("vm1", { name: "nap", signal }), /disk broke/);
  assert.deepEqual(await bad.calls(), around);
  await using linux = await openGoCocoon({ vintage: "newest" });
  await linux.runtime.snapshots.save("vm1", { name: "nap", signal });
  assert.deepEqual(await linux.calls(), [line]);
});

test("a fork copies memory, because its snapshot is removed at once", async ({ signal }) => {
  for (const [vintage, mode] of [
    ["newest", "--pull --restore-mode copy"],
    ["base", "--pull"],
  ] as const) {
    await using cocoon = await openGoCocoon({ vintage });
    await cocoon.runtime.fork({ name: "child", source: "vm1" }, { signal });
    const [saved = "", cloned, removed] = await cocoon.calls();
    const name = saved.split(" ")[3];
    assert.match(name ?? "", /^fork-/);
    assert.equal(cloned, `vm clone --output json --name child ${mode} SNAP`);
    assert.equal(removed, "snapshot rm SNAP");
    const { can } = await cocoon.runtime.describe({ signal });
    assert.equal(can.cloneStandsAlone, false);
    const sizes = vintage === "base" ? ["cpus", "memoryBytes", "storageBytes"] : [];
    assert.deepEqual(can.cloneSizes, sizes);
  }
});

test("logs come from vm logs where there is one", async ({ signal }) => {
  await using newest = await openGoCocoon({ vintage: "newest" });
  assert.equal((await newest.runtime.readConsole("vm1", { signal })).toString(), "hypervisor log\n");
  assert.equal((await newest.runtime.readConsole("vm1", { tailBytes: 4, signal })).toString(), "log\n");
  assert.deepEqual(await newest.calls(), ["vm logs vm1", "vm logs vm1"]);
  await using base = await openGoCocoon({ vintage: "base" });
  await assert.rejects(base.runtime.readConsole("vm1", { signal }), notSupported);
});

test("an image is imported by stream", async ({ signal }) => {
  await using cocoon = await openGoCocoon({ vintage: "base" });
  const image = await cocoon.runtime.images.import("img", [Readable.from([Buffer.from("QFI")])], { signal });
  assert.deepEqual([image.type, await cocoon.calls()], ["cloudimg", ["image import img"]]);
  assert.equal(await readFile(join(cocoon.directory, "imported"), "utf8"), "QFI");
});
