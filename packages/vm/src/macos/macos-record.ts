/** VMs as `cocoon-macos` keeps them: one JSON record per VM, which says nothing about its state. */
import { readFileSync } from "node:fs";
import { tryIdentify } from "@cocoon/core";
import * as z from "zod";
import type { Vm } from "../vm.ts";

export const macosRecordSchema = z.object({
  name: z.string().min(1),
  image: z.string().default(""),
  image_digest: z.string().optional(),
  cpus: z.int().nonnegative().default(0),
  /** MiB. */
  memory: z.coerce.number().nonnegative().default(0),
  disk: z.string().default(""),
  mac: z.string().default(""),
  tap: z.string().default(""),
  netns: z.string().default(""),
  bridge_dev: z.string().default(""),
  pid: z.int().default(0),
  created: z.string().default(""),
});

export type MacosRecord = z.output<typeof macosRecordSchema>;

/** As the Go vk-cocoon writes them in pods, so that a machine keeps its id when the kubelet is replaced. */
const idPrefix = "qemu-";

export function buildMacosVmId(name: string): string {
  return `${idPrefix}${name}`;
}

/** The VM name in such an id; undefined for other refs. */
export function tryReadMacosVmId(ref: string): string | undefined {
  return ref.startsWith(idPrefix) && ref.length > idPrefix.length ? ref.slice(idPrefix.length) : undefined;
}

export function readMacosVm(record: MacosRecord): Vm {
  const process = findProcess(record);
  return {
    id: buildMacosVmId(record.name),
    name: record.name,
    state: process ? "running" : "stopped",
    hypervisor: "qemu",
    config: {
      cpus: record.cpus,
      memoryBytes: record.memory * 2 ** 20,
      storageBytes: 0,
      os: "macos",
      image: record.image,
      ...(record.image_digest ? { imageDigest: record.image_digest } : {}),
      labels: {},
    },
    origin: { kind: "image", image: record.image },
    ...(process ? { pid: process.pid } : {}),
    nics: record.mac === "" ? [] : [readNic(record)],
    disks: [{ path: record.disk, role: "cow", serial: "", readOnly: false }],
    snapshotIds: [],
    guest: "unknown",
    epoch: process ? `${process.bootId} ${process.pid} ${process.startTicks}` : "",
    firstBooted: record.pid > 0,
    createdAt: record.created,
    updatedAt: record.created,
  };
}

function readNic(record: MacosRecord): Vm["nics"][number] {
  return {
    mac: record.mac,
    backend: record.netns === "" ? "bridge" : "cni",
    ...(record.tap ? { tap: record.tap } : {}),
    ...(record.bridge_dev ? { bridge: record.bridge_dev } : {}),
    ...(record.netns ? { netnsPath: record.netns } : {}),
    queues: 0,
    queueSize: 0,
    forwards: [],
  };
}

/** The recorded process, if it is still the one that has the VM's disk open: a pid is used again after a reboot. */
function findProcess({ pid, disk }: MacosRecord): ReturnType<typeof tryIdentify> {
  const found = pid > 0 ? tryIdentify(pid) : undefined;
  if (!found) return undefined;
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes(disk) ? found : undefined;
  } catch {
    return undefined; // it ended meanwhile
  }
}
