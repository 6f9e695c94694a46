/** What a VM uses, from the system's own counters; nothing here talks to QEMU or disturbs the guest. */
import { readProcessFile } from "@cocoon/vm/host";
import { stat } from "node:fs/promises";
import { join } from "node:path";
import { Fault, tryReadFile, type Abortable } from "@cocoon/core";
import type { AgentLinks } from "../agent/agent-links.ts";
import { machineFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { VmStats } from "@cocoon/vm";
import { readThrottling } from "../process/cgroup.ts";
import type { QemuContext } from "../context.ts";

const ticksPerSecond = 100;
const kibibyte = 1024;
const agentMs = 300;

/** `conflict` when the VM has no process. */
export async function readStats(
  context: QemuContext,
  record: VmRecord,
  { links, signal }: Abortable & { readonly links: AgentLinks },
): Promise<VmStats> {
  const pid = record.process?.pid;
  if (pid === undefined) throw new Fault("conflict", `VM not running: ${record.name}`);
  const directory = context.store.getDirectory(record.id);
  const [cpu, memory, disk, io, network, throttling, guest] = await Promise.all([
    cpuNanos(pid),
    readMemory(pid, join(directory, record.files)),
    readDisks(join(directory, record.files), record),
    readIo(pid),
    tapCounters(record),
    readThrottling(context.settings.cgroupParent, record.id),
    guestCounters(record, { directory, links, signal }),
  ]);
  const counters = network ?? guest?.network;
  return {
    at: context.now().toISOString(),
    cpu: { usageNanos: cpu, ...throttling },
    memory: { ...memory, ...(guest ? { guestUsedBytes: guest.usedBytes } : {}) },
    disk: { ...disk, ...io },
    ...(counters ? { network: counters } : {}),
  };
}

async function cpuNanos(pid: number): Promise<number> {
  const text = await readProcessFile(pid, "stat");
  const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[11]) + Number(fields[12])) * 1e9) / ticksPerSecond;
}

/** The guest's memory is the mapping of its memory file; the rest of the process is QEMU's own. */
async function readMemory(pid: number, files: string): Promise<VmStats["memory"]> {
  const [status, rollup, maps] = await Promise.all([
    readProcessFile(pid, "status"),
    readProcessFile(pid, "smaps_rollup").catch(() => ""),
    readProcessFile(pid, "smaps").catch(() => ""),
  ]);
  const residentBytes = field(status, "VmRSS") * kibibyte;
  if (rollup === "" || maps === "") return { residentBytes };
  const privateBytes = (field(rollup, "Private_Clean") + field(rollup, "Private_Dirty")) * kibibyte;
  const { ino } = await stat(join(files, machineFile.memory));
  return { residentBytes, privateBytes, guestPrivateBytes: guestPrivate(maps, ino) };
}

/** Sum of the anonymous (that is, copied on write) pages of all mappings of that inode. */
function guestPrivate(smaps: string, inode: number): number {
  let [sum, inside] = [0, false];
  for (const line of smaps.split("\n")) {
    const header = /^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ (\d+)/.exec(line);
    if (header) inside = Number(header[1]) === inode;
    else if (inside && (line.startsWith("Anonymous:") || line.startsWith("Swap:")))
      sum += Number(/\d+/.exec(line)?.[0] ?? 0) * kibibyte;
  }
  return sum;
}

function field(text: string, name: string): number {
  return Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(text)?.[1] ?? 0);
}

/** The VM's own layers; what it shares with its base image is not counted. */
async function readDisks(files: string, record: VmRecord): Promise<VmStats["disk"]> {
  const own = record.disks.flatMap((disk) =>
    disk.readOnly ? [] : disk.layers.slice(disk.role === "cow" ? 1 : 0),
  );
  const sizes = await Promise.all(own.map((layer) => stat(join(files, layer.file))));
  return {
    allocatedBytes: sizes.reduce((sum, { blocks }) => sum + blocks * 512, 0),
    apparentBytes: sizes.reduce((sum, { size }) => sum + size, 0),
  };
}

async function readIo(pid: number): Promise<{ readBytes?: number; writtenBytes?: number }> {
  const text = await readProcessFile(pid, "io").catch(() => "");
  if (text === "") return {};
  return { readBytes: field(text, "read_bytes"), writtenBytes: field(text, "write_bytes") };
}

/** A tap counts from the host's side: what it received is what the guest sent. */
async function tapCounters(record: VmRecord): Promise<VmStats["network"]> {
  const taps = record.nics.flatMap(({ nic }) => nic.tap ?? []);
  if (taps.length === 0) return undefined;
  const text = (await tryReadFile("/proc/net/dev")) ?? "";
  let [receivedBytes, sentBytes] = [0, 0];
  for (const line of text.split("\n")) {
    const [name = "", numbers = ""] = line.split(":");
    if (!taps.includes(name.trim())) continue;
    const columns = numbers.trim().split(/\s+/).map(Number);
    sentBytes += columns[0] ?? 0;
    receivedBytes += columns[8] ?? 0;
  }
  return { receivedBytes, sentBytes };
}

/** What only the guest can count; left out when it does not answer at once. */
async function guestCounters(
  record: VmRecord,
  { directory, links, signal }: Abortable & { readonly directory: string; readonly links: AgentLinks },
): Promise<{ usedBytes: number; network: NonNullable<VmStats["network"]> } | undefined> {
  if (record.guest !== "ready" || record.state !== "running") return undefined;
  const soon = AbortSignal.any([signal, AbortSignal.timeout(agentMs)]);
  try {
    const answer = await links.use(
      directory,
      (session) => session.request({ t: "stats" }, { signal: soon, timeoutMs: agentMs }),
      { signal: soon },
    );
    if (answer.t !== "stats") return undefined;
    const { receivedBytes, sentBytes } = answer;
    return {
      usedBytes: answer.memoryTotalBytes - answer.memoryAvailableBytes,
      network: { receivedBytes, sentBytes },
    };
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
