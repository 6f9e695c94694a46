import assert from "node:assert/strict";
import { readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { isFault } from "@cocoon/core";
import { temporaryDirectory } from "@cocoon/testkit";
import type { VmRuntime } from "../runtime.ts";
import { FakeHost } from "../testing/fake/fake-host.ts";
import { FakeRuntime } from "../testing/fake/fake-runtime.ts";
import { withMacos } from "./with-macos.ts";

/** Keeps its records as files; a guest is a `tail` that has the disk on its command line, as QEMU does. */
const script = `#!/bin/bash
home=$COCOON_MACOS_HOME
echo "$*" >> "$home/calls"
name="\${@: -1}"
[ -e "$home/broken" ] && { echo "Error: read vm record: no such file or directory" >&2; exit 1; }
boot() {
  tail -f "$home/$name.qcow2" > /dev/null 2>&1 &
  cat > "$home/$name.json" <<END
{"name":"$name","image":"$(cat "$home/$name.image")","cpus":4,"memory":"8192","vnc":-1,"ssh_port":0,
 "disk":"$home/$name.qcow2","mac":"52:54:00:00:00:01","tap":"t0","netns":"/var/run/netns/x","pid":$!,"created":"2026-01-01T00:00:00Z"}
END
}
case "$1 $2" in
  "vm run")
    [ "$3" = --help ] && { cat "$home/help"; exit 0; }
    echo "$name" > "$home/image"; image=$name; name=$4
    [ -e "$home/$name.json" ] && { echo "Error: vm \\"$name\\" already exists; rm it first" >&2; exit 1; }
    echo -n "$image" > "$home/$name.image"; : > "$home/$name.qcow2"; boot ;;
  "vm start") boot ;;
  "vm stop"|"vm rm")
    kill "$(sed -n 's/.*"pid":\\([0-9]*\\).*/\\1/p' "$home/$name.json")" 2> /dev/null
    [ "$2" = rm ] && rm "$home/$name".* ;;
  "vm list") echo "[$(cat "$home"/*.json 2> /dev/null | sed 's/^{/,{/' | sed '1s/^,//')]" ;;
  "image inspect") grep -qx "$name" "$home/images" || { echo "Error: not found" >&2; exit 1; } ;;
  "image pull") echo "$name" >> "$home/images" ;;
esac
`;

interface Host extends AsyncDisposable {
  readonly runtime: VmRuntime;
  readonly engine: VmRuntime;
  readonly directory: string;
  calls(): Promise<readonly string[]>;
}

const usualHelp =
  "--name string  --cpus int  --memory string  --random-smbios  --net string  --storage string";

async function openHost(signal: AbortSignal, help = usualHelp): Promise<Host> {
  const directory = await temporaryDirectory();
  const program = join(directory.path, "cocoon-macos");
  await writeFile(program, script, { mode: 0o755 });
  await writeFile(join(directory.path, "help"), help);
  await writeFile(join(directory.path, "images"), "");
  const engine = new FakeRuntime(
    new FakeHost({ directory: join(directory.path, "engine"), images: ["any"] }),
  );
  const runtime = await withMacos(engine, {
    command: { argv: [program], env: { PATH: "/usr/bin:/bin", COCOON_MACOS_HOME: directory.path } },
    findLease: (mac) => Promise.resolve(mac === "52:54:00:00:00:01" ? "127.0.0.1" : undefined),
    listEveryMs: 20,
    signal,
  });
  const none = new AbortController().signal;
  return {
    runtime,
    engine,
    directory: directory.path,
    calls: async () => {
      const lines = (await readFile(join(directory.path, "calls"), "utf8")).trim().split("\n");
      await writeFile(join(directory.path, "calls"), "");
      return lines.filter((line) => !line.startsWith("vm list"));
    },
    [Symbol.asyncDispose]: async () => {
      for (const vm of await runtime.list({ signal: none }))
        if (vm.config.os === "macos") await runtime.remove(vm.id, { force: true, signal: none });
      await directory[Symbol.asyncDispose]();
    },
  };
}

const spec = { name: "vk-a", image: "reg/tahoe:26", os: "macos" } as const;

test("a macOS guest is pulled, run, found, started again and removed by its own program", async ({
  signal,
}) => {
  await using host = await openHost(signal);
  const { runtime } = host;
  const vm = await runtime.run({ ...spec, cpus: 3, memoryBytes: 6 * 2 ** 30 }, { signal });
  assert.deepEqual([vm.id, vm.name, vm.state, vm.config.os], ["qemu-vk-a", "vk-a", "running", "macos"]);
  assert.deepEqual(await host.calls(), [
    "vm run --help",
    "image inspect reg/tahoe:26",
    "image pull reg/tahoe:26",
    "vm run --name vk-a --cpus 4 --memory 6144 --random-smbios --net cni reg/tahoe:26",
  ]);
  assert.deepEqual(await runtime.address(vm.id, { signal }), {
    ip: "127.0.0.1",
    routable: true,
    forwards: [],
  });
  assert.ok((await runtime.stats(vm.id, { signal })).memory.residentBytes > 0);
  process.kill(vm.pid ?? 0, "SIGKILL");
  const stopped = await waitFor(
    () => runtime.inspect(vm.id, { signal }),
    ({ state }) => state === "stopped",
  );
  assert.equal(stopped.pid, undefined);
  const again = await runtime.start(vm.id, { signal });
  assert.equal(again.state, "running");
  assert.notEqual(again.epoch, vm.epoch);
  await runtime.start(vm.id, { signal });
  await runtime.remove(vm.id, { force: true, signal });
  assert.deepEqual(await host.calls(), ["vm start vk-a", "vm rm vk-a"], "a guest that runs is not started");
  await assert.rejects(runtime.inspect(vm.id, { signal }), (error) => isFault(error, "notFound"));
  await assert.rejects(runtime.remove(vm.id, { signal }), (error) => isFault(error, "notFound"));
});

test("a program that fails is unavailable: its guests never count as gone", async ({ signal }) => {
  await using host = await openHost(signal);
  const { id } = await host.runtime.run(spec, { signal });
  await writeFile(join(host.directory, "broken"), "");
  for (const lookup of [
    () => host.runtime.inspect(id, { signal }),
    () => host.runtime.remove(id, { force: true, signal }),
    () => host.runtime.list({ signal }),
  ])
    await assert.rejects(lookup, (error) => isFault(error, "unavailable"));
  await assert.rejects(host.runtime.inspect(id, { signal }), /cocoon-macos vm list: .*no such file/);
  await rm(join(host.directory, "broken"));
  assert.equal((await host.runtime.inspect(id, { signal })).state, "running");
});

test("everything else stays with the engine, and what a macOS guest cannot do is refused", async ({
  signal,
}) => {
  await using host = await openHost(signal);
  const { runtime, engine } = host;
  assert.equal((await runtime.describe({ signal })).can.macos, true);
  const linux = await runtime.run({ name: "vk-b", image: "any", memoryBytes: 2 ** 29 }, { signal });
  const mac = await runtime.run(spec, { signal });
  assert.deepEqual(
    (await runtime.list({ signal })).map(({ name }) => name),
    ["vk-b", "vk-a"],
  );
  assert.equal((await engine.inspect("vk-b", { signal })).id, linux.id);
  await runtime.pause(linux.id, { signal });
  assert.equal((await engine.inspect("vk-b", { signal })).state, "paused");
  for (const attempt of [
    () => runtime.pause(mac.id, { signal }),
    () => runtime.exec(mac.id, { argv: ["id"] }, { signal }),
    () => runtime.readConsole(mac.id, { signal }),
  ])
    await assert.rejects(attempt, (error) => isFault(error, "notSupported"));
});

test("flags that the program does not list are not sent", async ({ signal }) => {
  await using host = await openHost(signal, "--name string --memory string");
  await host.runtime.run({ ...spec, storageBytes: 2 ** 40 }, { signal });
  assert.equal((await host.calls()).at(-1), "vm run --name vk-a --memory 8192 reg/tahoe:26");
});

test("a guest that ends is reported beside the engine's events", async ({ signal }) => {
  await using host = await openHost(signal);
  const stop = new AbortController();
  const { pid } = await host.runtime.run(spec, { signal });
  const kinds: string[] = [];
  for await (const event of host.runtime.watch({ signal: AbortSignal.any([signal, stop.signal]) })) {
    kinds.push(event.kind);
    if (event.kind === "started") process.kill(pid ?? 0, "SIGKILL");
    if (event.kind === "exited") break;
  }
  assert.deepEqual(
    kinds.filter((kind) => kind !== "synced"),
    ["added", "started", "exited"],
  );
});

async function waitFor<T>(read: () => Promise<T>, isDone: (value: T) => boolean): Promise<T> {
  for (;;) {
    const value = await read();
    if (isDone(value)) return value;
  }
}
