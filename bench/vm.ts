/**
 * What a VM costs with the QEMU backend: booting, cloning, forking, saving, going on, and keeping many. The guest is the
 * demo image. Saving and going on are compared with QEMU's own way, a migration stream of the whole machine, in the
 * same run, the order alternating.
 *
 *   --rounds N     measurements of each kind (5)
 *   --sizes LIST   guest sizes in MiB (128,256,512,1024)
 *   --idle N       idle VMs under one manager (20)
 *   --seconds N    how long the manager is watched (20)
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Snapshot, Vm, VmRuntime } from "@cocoon/vm";
import {
  awaitSsh,
  cpuSeconds,
  machine,
  newName,
  openBench,
  remove,
  residentMiB,
  runIn,
  signal,
  summary,
  timed,
  type Bench,
  type Summary,
} from "./vm/measure.ts";

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    sizes: { type: "string", default: "128,256,512,1024" },
    idle: { type: "string", default: "20" },
    seconds: { type: "string", default: "20" },
  },
});
const rounds = Number(values.rounds);
const sizes = values.sizes.split(",").map(Number);
const mainSize = sizes.includes(256) ? 256 : (sizes[0] ?? 256);
const dirtyMiB = 24;
const say = (text: string) => console.error(text);

interface SizeFigures {
  readonly cloneToRunningMs: Summary;
  readonly savePauseIdleMs: Summary;
  readonly savePauseDirtyMs: Summary;
  readonly streamPauseDirtyMs: Summary;
  readonly cloneFromStreamToRunningMs: Summary;
}

/** A ready machine of that size, saved. */
async function golden(bench: Bench, memoryMiB: number): Promise<Snapshot> {
  const vm = await bench.ours.run({ ...machine(memoryMiB), name: newName("golden") }, { signal });
  await bench.ours.waitReady(vm.id, { signal });
  await awaitSsh(bench.ours, vm);
  const { snapshot } = await bench.ours.snapshots.save(vm.id, { signal });
  await remove(bench.ours, vm);
  return snapshot;
}

async function clone(
  runtime: VmRuntime,
  snapshot: Snapshot,
): Promise<{ readonly ms: number; readonly value: Vm }> {
  return timed(() => runtime.clone({ name: newName("clone"), snapshot: snapshot.id }, { signal }));
}

/** Saves a clone whose guest has written so much since it was cloned; returns how long it stood still. */
async function savePause(
  bench: Bench,
  runtime: VmRuntime,
  { from, writeMiB }: { from: Snapshot; writeMiB: number },
): Promise<number> {
  const { value: vm } = await clone(bench.ours, from);
  await bench.ours.waitReady(vm.id, { signal });
  if (writeMiB > 0)
    await runIn(bench.ours, vm, `head -c ${writeMiB * 1024 * 1024} /dev/urandom > /run/dirty`);
  const report = await runtime.snapshots.save(vm.id, { signal });
  await remove(bench.ours, vm);
  await bench.ours.snapshots.remove(report.snapshot.id, { signal });
  return report.pausedMs;
}

async function perSize(bench: Bench, from: Snapshot): Promise<SizeFigures> {
  const figures = {
    cloned: [] as number[],
    idle: [] as number[],
    dirty: [] as number[],
    stream: [] as number[],
    fromStream: [] as number[],
  };
  const { value: source } = await clone(bench.ours, from);
  await bench.ours.waitReady(source.id, { signal });
  const { snapshot: streamed } = await bench.stream.snapshots.save(source.id, { signal });
  await remove(bench.ours, source);
  const work: readonly (() => Promise<void>)[] = [
    async () => {
      const { ms, value } = await clone(bench.ours, from);
      figures.cloned.push(ms);
      await remove(bench.ours, value);
    },
    async () => {
      const { ms, value } = await clone(bench.stream, streamed);
      figures.fromStream.push(ms);
      await remove(bench.ours, value);
    },
    async () => void figures.idle.push(await savePause(bench, bench.ours, { from, writeMiB: 0 })),
    async () => void figures.dirty.push(await savePause(bench, bench.ours, { from, writeMiB: dirtyMiB })),
    async () => void figures.stream.push(await savePause(bench, bench.stream, { from, writeMiB: dirtyMiB })),
  ];
  for (let round = 0; round < rounds; round += 1)
    for (const step of round % 2 === 0 ? work : work.toReversed()) await step();
  await bench.ours.snapshots.remove(streamed.id, { signal });
  return {
    cloneToRunningMs: summary(figures.cloned),
    savePauseIdleMs: summary(figures.idle),
    savePauseDirtyMs: summary(figures.dirty),
    streamPauseDirtyMs: summary(figures.stream),
    cloneFromStreamToRunningMs: summary(figures.fromStream),
  };
}

/** Cold boots and clones, alternating, to the points that people wait for. */
async function startTimes(bench: Bench, from: Snapshot): Promise<Record<string, Summary>> {
  const seen: Record<string, number[]> = {};
  const note = (name: string, ms: number) => (seen[name] ??= []).push(ms);
  const { ours } = bench;
  const cold = async () => {
    const began = performance.now();
    const vm = await ours.run({ ...machine(mainSize), name: newName("cold") }, { signal });
    note("coldBootToRunningMs", performance.now() - began);
    await awaitSsh(ours, vm);
    note("coldBootToSshMs", performance.now() - began);
    await remove(ours, vm);
  };
  const cloned = async () => {
    const began = performance.now();
    const { ms, value: vm } = await clone(ours, from);
    note("cloneToRunningMs", ms);
    await ours.waitReady(vm.id, { signal });
    note("cloneToReadyMs", performance.now() - began);
    await awaitSsh(ours, vm);
    note("cloneToSshMs", performance.now() - began);
    const { snapshot } = await ours.snapshots.save(vm.id, { signal });
    note("restoreToRunningMs", (await timed(() => ours.restore(vm.id, snapshot.id, { signal }))).ms);
    await ours.waitReady(vm.id, { signal });
    const fork = await timed(() => ours.fork({ name: newName("fork"), source: vm.id }, { signal }));
    note("forkToRunningMs", fork.ms);
    await remove(ours, vm, fork.value);
    await ours.snapshots.remove(snapshot.id, { signal });
  };
  for (let round = 0; round < rounds; round += 1)
    for (const step of round % 2 === 0 ? [cold, cloned] : [cloned, cold]) await step();
  return Object.fromEntries(Object.entries(seen).map(([name, all]) => [name, summary(all)]));
}

async function tenAtOnce(bench: Bench, from: Snapshot): Promise<Record<string, unknown>> {
  const began = performance.now();
  const vms = await Promise.all(
    Array.from({ length: 10 }, async () => (await clone(bench.ours, from)).value),
  );
  const runningMs = performance.now() - began;
  await Promise.all(vms.map((vm) => bench.ours.waitReady(vm.id, { signal })));
  const readyMs = performance.now() - began;
  const stats = await Promise.all(vms.map((vm) => bench.ours.stats(vm.id, { signal })));
  const mebibytes = (bytes: number | undefined) => (bytes ?? 0) / 1024 / 1024;
  const figures = {
    allRunningMs: Math.round(runningMs),
    allReadyMs: Math.round(readyMs),
    guestPrivateMiB: summary(stats.map(({ memory }) => mebibytes(memory.guestPrivateBytes))),
    processPrivateMiB: summary(stats.map(({ memory }) => mebibytes(memory.privateBytes))),
  };
  await remove(bench.ours, ...vms);
  return figures;
}

/** A manager of its own with many idle VMs: its memory beyond that of an empty process, and its CPU. */
async function managerCost(bench: Bench, from: Snapshot): Promise<Record<string, number>> {
  const vms: Vm[] = [];
  for (let made = 0; made < Number(values.idle); made += 1) vms.push((await clone(bench.ours, from)).value);
  for (const vm of vms) await bench.ours.waitReady(vm.id, { signal });
  const empty = await startManager([]);
  const manager = await startManager([bench.root]);
  await new Promise((resolve) => setTimeout(resolve, 5_000));
  const before = await cpuSeconds(manager.pid);
  await new Promise((resolve) => setTimeout(resolve, Number(values.seconds) * 1000));
  const cpuPercent = (100 * ((await cpuSeconds(manager.pid)) - before)) / Number(values.seconds);
  const [resident, emptyResident] = [await residentMiB(manager.pid), await residentMiB(empty.pid)];
  manager.stop();
  empty.stop();
  await remove(bench.ours, ...vms);
  return {
    idleVms: vms.length,
    cpuPercent: Math.round(cpuPercent * 100) / 100,
    residentMiB: Math.round(resident),
    emptyProcessMiB: Math.round(emptyResident),
    overheadMiB: Math.round(resident - emptyResident),
  };
}

async function startManager(args: readonly string[]): Promise<{ readonly pid: number; stop(): void }> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "vm", "manager.ts"), ...args], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  return { pid: child.pid ?? 0, stop: () => void child.kill("SIGKILL") };
}

interface Target {
  readonly name: string;
  readonly value: number;
  readonly want: string;
  readonly met: boolean;
}

function target(name: string, value: number, want: string): Target {
  const [sign, limit] = [want.slice(0, 2), Number(want.slice(3))];
  const rounded = Math.round(value * 100) / 100;
  return { name, value: rounded, want, met: sign === "<=" ? value <= limit : value >= limit };
}

await using bench = await openBench();
const about = await bench.ours.describe({ signal });
const bySize: Record<string, SizeFigures> = {};
let start: Record<string, Summary> = {};
let ten: Record<string, unknown> = {};
let manager: Record<string, number> = {};
for (const size of sizes) {
  say(`guests of ${size} MiB`);
  const snapshot = await golden(bench, size);
  if (size === mainSize) {
    start = await startTimes(bench, snapshot);
    ten = await tenAtOnce(bench, snapshot);
  }
  if (size === sizes[0]) manager = await managerCost(bench, snapshot);
  bySize[String(size)] = await perSize(bench, snapshot);
  await bench.ours.snapshots.remove(snapshot.id, { signal });
}

const median = (name: string) => start[name]?.median ?? Number.NaN;
const clones = Object.values(bySize).map((figures) => figures.cloneToRunningMs.median);
const pauses = Object.values(bySize).map((figures) => figures.savePauseDirtyMs.median);
const guestPrivate = ten["guestPrivateMiB"] as Summary;
const targets = [
  target(
    "clone to running against cold boot to SSH, times faster",
    median("coldBootToSshMs") / median("cloneToRunningMs"),
    ">= 10",
  ),
  target(
    "clone to running, slowest guest size against fastest",
    Math.max(...clones) / Math.min(...clones),
    "<= 1.5",
  ),
  target(`save pause with ${dirtyMiB} MiB dirty, worst guest size, ms`, Math.max(...pauses), "<= 150"),
  target("save pause, slowest guest size against fastest", Math.max(...pauses) / Math.min(...pauses), "<= 2"),
  target(
    "clone to first agent answer against cold boot to SSH, times faster",
    median("coldBootToSshMs") / median("cloneToReadyMs"),
    ">= 10",
  ),
  target(
    "private guest pages of an idle clone, share of its memory",
    guestPrivate.median / mainSize,
    "<= 0.25",
  ),
  target(
    "manager with idle VMs, resident beyond an empty process, MiB",
    manager["overheadMiB"] ?? Number.NaN,
    "<= 60",
  ),
  target("manager with idle VMs, CPU percent", manager["cpuPercent"] ?? Number.NaN, "<= 1"),
];
const env = {
  accelerator: about.accelerator,
  qemu: about.version,
  node: process.version,
  cpu: cpus()[0]?.model.trim(),
  cores: cpus().length,
  load: loadavg().map((value) => Math.round(value * 10) / 10),
  rounds,
};
console.log(
  JSON.stringify({ bench: "vm", env, figures: { start, tenClonesAtOnce: ten, manager, bySize }, targets }),
);
