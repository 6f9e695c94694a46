/** A bridged machine as root: run in a network namespace of the test's own, prints what it saw as JSON. */
import { execFileSync } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openBridgeNetwork, openQemuRuntime } from "@cocoon/qemu";
import type { VmRuntime } from "@cocoon/vm";
import { imageDirectory } from "./qemu-harness.ts";

const [root = "", uid = ""] = process.argv.slice(2);
const signal = AbortSignal.timeout(540_000);
const mebibyte = 1024 * 1024;

async function open(): Promise<VmRuntime> {
  const bridge = await openBridgeNetwork({ directory: join(root, "net"), bridge: "jailbr0" }, { signal });
  return openQemuRuntime({
    rootDirectory: root,
    images: openImageLibrary({ directory: imageDirectory() }),
    networks: new Map([["bridge", bridge]]),
    runAs: { uid: Number(uid), gid: Number(uid), count: 10 },
    path: process.env["PATH"] ?? "",
    signal,
  });
}

async function pingGateway(runtime: VmRuntime, id: string): Promise<boolean> {
  const argv = [
    "sh",
    "-c",
    "for i in 1 2 3 4 5 6 7 8 9; do ping -c 1 -W 5 10.88.0.1 && exit 0; sleep 1; done; exit 1",
  ];
  await using program = await runtime.exec(id, { argv }, { signal });
  await text(program.stdout);
  return (await program.exited).code === 0;
}

async function main(): Promise<Record<string, unknown>> {
  await using first = await open();
  const size = { cpus: 1, memoryBytes: 128 * mebibyte, storageBytes: 256 * mebibyte };
  const vm = await first.run({ name: "bridged", image: demoImageName, ...size }, { signal });
  await first.waitReady(vm.id, { signal });
  const reached = await pingGateway(first, vm.id);
  const sameNetwork = (await readlink(`/proc/${vm.pid}/ns/net`)) === (await readlink("/proc/self/ns/net"));
  const interfaces = (await readFile(`/proc/${vm.pid}/net/dev`, "latin1"))
    .match(/^\s*\S+:/gm)
    ?.map((name) => name.trim());
  const { network } = await first.stats(vm.id, { signal });
  await first.stop(vm.id, { force: true, signal });
  // What a restart of the host takes.
  execFileSync("ip", ["link", "delete", "dev", vm.nics[0]?.tap ?? ""]);
  execFileSync("ip", ["link", "delete", "dev", "jailbr0"]);
  await using second = await open();
  await second.start(vm.id, { signal });
  await second.waitReady(vm.id, { signal });
  const reachedAgain = await pingGateway(second, vm.id);
  await second.remove(vm.id, { force: true, signal });
  return { reached, sameNetwork, interfaces, sent: network?.sentBytes ?? 0, reachedAgain };
}

process.stdout.write(`${JSON.stringify(await main())}\n`);
