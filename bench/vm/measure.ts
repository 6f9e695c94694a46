/** Tools of the VM benchmark: a store, guests, clocks and summaries. */
import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { temporaryDirectory } from "@cocoon/testkit";
import { demoImageName, openImageLibrary } from "@cocoon/images";
import { openQemuRuntime, openUserNetwork } from "@cocoon/qemu";
import type { Vm, VmRuntime } from "@cocoon/vm";

const mebibyte = 1024 * 1024;
export const { signal } = new AbortController();

export interface Summary {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function summary(values: readonly number[]): Summary {
  const sorted = values.toSorted((one, other) => one - other);
  const round = (value: number | undefined) => Math.round((value ?? 0) * 10) / 10;
  return {
    median: round(sorted[Math.floor(sorted.length / 2)]),
    low: round(sorted[0]),
    high: round(sorted.at(-1)),
  };
}

export async function timed<T>(work: () => Promise<T>): Promise<{ readonly ms: number; readonly value: T }> {
  const began = performance.now();
  const value = await work();
  return { ms: performance.now() - began, value };
}

export function imageDirectory(): string {
  return join(process.env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "cocoon", "test-images");
}

/** A runtime over a store; `readPages: false` is the peer: QEMU's own migration stream. */
export async function openRuntime(root: string, { readPages = true } = {}): Promise<VmRuntime> {
  const images = openImageLibrary({ directory: imageDirectory() });
  await images.pull(demoImageName, { signal });
  return openQemuRuntime({
    rootDirectory: root,
    images,
    networks: new Map([
      ["user", await openUserNetwork({ directory: join(root, "network"), firstFreePort: 1024 })],
    ]),
    path: process.env["PATH"] ?? "",
    readPages,
    signal,
  });
}

export interface Bench extends AsyncDisposable {
  readonly root: string;
  readonly ours: VmRuntime;
  readonly stream: VmRuntime;
}

export async function openBench(): Promise<Bench> {
  const directory = await temporaryDirectory();
  const [ours, stream] = [
    await openRuntime(directory.path),
    await openRuntime(directory.path, { readPages: false }),
  ];
  return {
    root: directory.path,
    ours,
    stream,
    [Symbol.asyncDispose]: async () => {
      for (const vm of await ours.list({ signal })) await ours.remove(vm.id, { force: true, signal });
      await ours[Symbol.asyncDispose]();
      await stream[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

let counter = 0;
export function newName(kind: string): string {
  counter += 1;
  return `${kind}-${counter}`;
}

export function machine(memoryMiB: number): {
  cpus: number;
  memoryBytes: number;
  storageBytes: number;
  image: string;
} {
  return { image: demoImageName, cpus: 1, memoryBytes: memoryMiB * mebibyte, storageBytes: 512 * mebibyte };
}

/** Resolves when the guest's SSH server says hello. */
export async function awaitSsh(runtime: VmRuntime, vm: Vm): Promise<void> {
  for (;;) {
    try {
      const stream = await runtime.dial(vm.id, 22, { signal: AbortSignal.timeout(1_000) });
      try {
        for await (const piece of stream) if (String(piece).startsWith("SSH-")) return;
      } finally {
        stream.destroy();
      }
    } catch {
      // not yet
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function runIn(runtime: VmRuntime, vm: Vm, script: string): Promise<string> {
  await using program = await runtime.exec(vm.id, { argv: ["sh", "-c", script] }, { signal });
  const [pieces, exit] = await Promise.all([program.stdout.toArray(), program.exited]);
  if (exit.code !== 0) throw new Error(`${script}: ${exit.code}`);
  return pieces.map(String).join("");
}

export async function remove(runtime: VmRuntime, ...vms: readonly Vm[]): Promise<void> {
  await Promise.all(vms.map((vm) => runtime.remove(vm.id, { force: true, signal })));
}

/** Resident memory of a process in MiB. */
export async function residentMiB(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/status`, "latin1");
  return Number(/^VmRSS:\s+(\d+)/m.exec(text)?.[1] ?? 0) / 1024;
}

/** CPU seconds that a process has used. */
export async function cpuSeconds(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, "latin1");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) / 100;
}
