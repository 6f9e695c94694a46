/**
 * Limits for each VM where we may set them: a cgroup of its own, version 2 or 1. Where we may not (no root, no
 * delegation) VMs run without, and `doctor` says so. Names are those of the newest engine: `<parent>/vm-<id>.scope`.
 */
import { access, mkdir, readFile, rmdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { sleep, systemCode, type Logger } from "@cocoon/core";
import type { CpuPolicy } from "@cocoon/vm";

const mountPoint = "/sys/fs/cgroup";
const defaultPeriodMicros = 100_000;
const maxThreads = 1024;
const busyMs = 3_000;
const mebibyte = 1024 * 1024;
/** What QEMU needs beside the guest's memory; translated code can take a gigabyte. */
const overheadBytes = { kvm: 512 * mebibyte, tcg: 1536 * mebibyte } as const;

export interface CgroupRequest {
  readonly parent: string;
  readonly vmId: string;
  readonly pid: number;
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly accelerator: "kvm" | "tcg";
  readonly policy: CpuPolicy;
}

/** A file below the mount point, and what to write into it. */
interface Setting {
  readonly controller: string;
  readonly file: string;
  readonly value: string;
}

export type CgroupVersion = 1 | 2;

/** The limits as files and values. Without a quota a VM may use as many CPUs as it has. */
export function cgroupSettings(version: CgroupVersion, request: CgroupRequest): readonly Setting[] {
  const { policy, cpus } = request;
  const period = policy.periodMicros ?? defaultPeriodMicros;
  const quota = policy.quotaMicros ?? cpus * period;
  const weight = policy.weight ?? 100;
  const memory = String(request.memoryBytes + overheadBytes[request.accelerator]);
  if (version === 2)
    return [
      { controller: "", file: "cpu.weight", value: String(weight) },
      { controller: "", file: "cpu.max", value: `${quota} ${period}` },
      { controller: "", file: "memory.max", value: memory },
      { controller: "", file: "pids.max", value: String(maxThreads) },
    ];
  return [
    { controller: "cpu", file: "cpu.shares", value: String(computeShares(weight)) },
    { controller: "cpu", file: "cpu.cfs_period_us", value: String(period) },
    { controller: "cpu", file: "cpu.cfs_quota_us", value: String(quota) },
    { controller: "memory", file: "memory.limit_in_bytes", value: memory },
    { controller: "pids", file: "pids.max", value: String(maxThreads) },
  ];
}

/** Weight 1..10000 as shares 2..262144, the inverse of what Kubernetes does. */
function computeShares(weight: number): number {
  return Math.round(2 + ((weight - 1) * 262_142) / 9_999);
}

function scopePath(controller: string, parent: string, vmId: string): string {
  return join(mountPoint, controller, parent, `vm-${vmId}.scope`);
}

async function cgroupVersion(): Promise<CgroupVersion> {
  try {
    await access(join(mountPoint, "cgroup.controllers"));
    return 2;
  } catch {
    return 1;
  }
}

/** Puts the process into its cgroup. What is not permitted is left out, and said once per VM. */
export async function placeInCgroup(request: CgroupRequest, log: Logger): Promise<void> {
  if (request.parent === "") return;
  const version = await cgroupVersion();
  const settings = cgroupSettings(version, request);
  const refused: string[] = [];
  if (version === 2) await delegate(request.parent);
  for (const controller of new Set(settings.map((setting) => setting.controller))) {
    const directory = scopePath(controller, request.parent, request.vmId);
    try {
      await mkdir(directory, { recursive: true });
      for (const { file, value } of settings.filter((setting) => setting.controller === controller))
        await writeFile(join(directory, file), value).catch(() => refused.push(file));
      await writeFile(join(directory, "cgroup.procs"), String(request.pid));
    } catch (error) {
      refused.push(`${directory} (${systemCode(error) ?? "error"})`);
    }
  }
  if (refused.length > 0)
    log.debug({ vm: request.vmId, refused: refused.join(", ") }, "cgroup limits not set");
}

/** In version 2 a group has only the controllers that its parents pass on. */
async function delegate(parent: string): Promise<void> {
  let directory = mountPoint;
  for (const name of ["", ...parent.split("/")]) {
    directory = join(directory, name);
    await mkdir(directory, { recursive: true }).catch(() => undefined); // reported by what follows
    await writeFile(join(directory, "cgroup.subtree_control"), "+cpu +memory +pids").catch(() => undefined);
  }
}

/** Removes the VM's cgroup once its process is gone. Repeatable. */
export async function removeCgroup(parent: string, vmId: string): Promise<void> {
  if (parent === "") return;
  const controllers = (await cgroupVersion()) === 2 ? [""] : ["cpu", "memory", "pids"];
  for (const controller of controllers) await removeScope(scopePath(controller, parent, vmId));
}

/** The kernel takes a dead process out of its group a moment after its parent reaped it. */
async function removeScope(directory: string): Promise<void> {
  const signal = AbortSignal.timeout(busyMs);
  for (;;) {
    try {
      await rmdir(directory);
      return;
    } catch (error) {
      // Otherwise it was never made, or is not ours to remove.
      if (systemCode(error) !== "EBUSY" || !(await sleep(20, { signal }))) return;
    }
  }
}

/** How long the VM had to wait for CPU, where a cgroup counts it. */
export async function readThrottling(
  parent: string,
  vmId: string,
): Promise<{ readonly throttledNanos: number; readonly throttledPeriods: number } | undefined> {
  if (parent === "") return undefined;
  const version = await cgroupVersion();
  const directory = scopePath(version === 2 ? "" : "cpu", parent, vmId);
  const text = await readFile(join(directory, "cpu.stat"), "latin1").catch(() => undefined);
  if (text === undefined) return undefined;
  const field = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, "m").exec(text)?.[1] ?? 0);
  const throttledNanos = version === 2 ? field("throttled_usec") * 1000 : field("throttled_time");
  return { throttledNanos, throttledPeriods: field("nr_throttled") };
}
