/** Usage of the node and of every machine on it. */
import { availableParallelism, freemem, totalmem } from "node:os";
import { readFile } from "node:fs/promises";
import type { Abortable } from "@cocoon/core";
import type { PodStats, StatsSummary } from "@cocoon/kubelet";
import type { VmRuntime, VmStats } from "@cocoon/vm";
import type { TrackedMachine } from "./provider/tracked-machine.ts";

export interface StatsOptions extends Abortable {
  readonly runtime: VmRuntime;
  readonly node: string;
  readonly machines: readonly TrackedMachine[];
  readonly startedAt: string;
}

export async function summarise({
  runtime,
  node,
  machines,
  startedAt,
  signal,
}: StatsOptions): Promise<StatsSummary> {
  const time = new Date().toISOString();
  const live = machines.filter((tracked) => tracked.shown?.kind === "live" && tracked.shown.vmId !== "");
  const pods = await Promise.all(live.map((tracked) => podStats(tracked, runtime, signal)));
  return {
    node: {
      nodeName: node,
      startTime: startedAt,
      cpu: { time, usageCoreNanoSeconds: await nodeCpuNanos() },
      memory: {
        time,
        workingSetBytes: totalmem() - freemem(),
        usageBytes: totalmem() - freemem(),
        availableBytes: freemem(),
      },
    },
    pods: pods.filter((each) => each !== undefined),
  };
}

/** A machine that just went has no numbers: it is left out. */
async function podStats(
  tracked: TrackedMachine,
  runtime: VmRuntime,
  signal: AbortSignal,
): Promise<PodStats | undefined> {
  if (tracked.shown?.kind !== "live") return undefined;
  const { startedAt, vmId } = tracked.shown;
  let stats: VmStats;
  try {
    stats = await runtime.stats(vmId, { signal });
  } catch {
    return undefined;
  }
  const cpu = { time: stats.at, usageCoreNanoSeconds: stats.cpu.usageNanos };
  const memory = {
    time: stats.at,
    workingSetBytes: stats.memory.residentBytes,
    rssBytes: stats.memory.residentBytes,
    usageBytes: stats.memory.residentBytes,
  };
  const { namespace = "", name } = tracked.key;
  const container = tracked.writer.pod.spec.containers[0]?.name ?? "agent";
  const rootfs = { time: stats.at, usedBytes: stats.disk.allocatedBytes };
  return {
    podRef: { name, namespace, uid: tracked.uid },
    startTime: startedAt,
    containers: [{ name: container, startTime: startedAt, cpu, memory, rootfs }],
    cpu,
    memory,
    "ephemeral-storage": rootfs,
    ...(stats.network
      ? {
          network: {
            time: stats.at,
            name: "eth0",
            rxBytes: stats.network.receivedBytes,
            txBytes: stats.network.sentBytes,
          },
        }
      : {}),
  };
}

/** `/proc/stat` counts hundredths of a second; idle and waiting for disks are not usage. */
export async function nodeCpuNanos(): Promise<number> {
  const [line = ""] = (await readFile("/proc/stat", "utf8")).split("\n", 1);
  const [user = 0, nice = 0, system = 0, , , irq = 0, softirq = 0] = line
    .trim()
    .split(/\s+/)
    .slice(1)
    .map(Number);
  return (user + nice + system + irq + softirq) * 10_000_000;
}

export function hostSize(): { readonly cpus: number; readonly memoryBytes: number } {
  return { cpus: availableParallelism(), memoryBytes: totalmem() };
}
