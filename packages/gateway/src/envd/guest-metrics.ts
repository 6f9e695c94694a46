/** Usage as the guest measures it. */
import type { Abortable } from "@cocoon/core";
import type { Guest } from "../guest/guest.ts";
import type { GuestRecord } from "../guest/protocol.ts";

interface GuestUsage {
  readonly cpuCount: number;
  readonly cpuUsedPct: number;
  readonly memTotal: number;
  readonly memUsed: number;
  readonly memCache: number;
  readonly diskTotal: number;
  readonly diskUsed: number;
}

/** Usage at one moment, in unix seconds. */
export interface UsageSample extends GuestUsage {
  readonly at: number;
}

/** Of now, last; before it what the guest has measured since then, oldest first. A guest keeps the last two hours. */
export async function readUsageSince(
  guest: Guest,
  { since, signal }: Abortable & { readonly since?: number },
): Promise<readonly UsageSample[]> {
  const records = await guest.call({ op: "stats", ...(since === undefined ? {} : { since }) }, { signal });
  return records.map(readSample);
}

async function readUsage(guest: Guest, options: Abortable): Promise<GuestUsage> {
  return (await readUsageSince(guest, options)).at(-1) ?? readSample({});
}

function readSample(record: GuestRecord): UsageSample {
  const number = (key: string) => (typeof record[key] === "number" ? record[key] : 0);
  const memTotal = number("memoryTotal");
  return {
    // One of before the history says none.
    at: number("at") || Math.floor(Date.now() / 1000),
    cpuCount: number("cpus"),
    cpuUsedPct: number("cpuMillis") / 1000,
    memTotal,
    memUsed: Math.max(0, memTotal - number("memoryAvailable")),
    memCache: number("memoryCache"),
    diskTotal: number("diskTotal"),
    diskUsed: number("diskUsed"),
  };
}

/** `/metrics` of envd. */
export async function readGuestMetrics(guest: Guest, options: Abortable): Promise<unknown> {
  const usage = await readUsage(guest, options);
  const mib = (bytes: number) => Math.floor(bytes / 1_048_576);
  return {
    ts: Math.floor(Date.now() / 1000),
    cpu_count: usage.cpuCount,
    cpu_used_pct: usage.cpuUsedPct,
    mem_total: usage.memTotal,
    mem_used: usage.memUsed,
    mem_cache: usage.memCache,
    mem_total_mib: mib(usage.memTotal),
    mem_used_mib: mib(usage.memUsed),
    disk_used: usage.diskUsed,
    disk_total: usage.diskTotal,
  };
}
