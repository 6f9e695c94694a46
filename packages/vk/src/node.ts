/** What the node says of itself: capacity, labels, conditions. */
import { readFile, statfs } from "node:fs/promises";
import { hostTaint, nodeLabel } from "@cocoon/contract";
import { buildInfo, type Abortable } from "@cocoon/core";
import { parseQuantity, tryParseQuantity } from "@cocoon/core/quantity";
import type { NodeDescription } from "@cocoon/kubelet";
import type { VmRuntime } from "@cocoon/vm";
import { hostSize } from "./stats.ts";

export interface NodeSettings {
  readonly name: string;
  readonly ip: string;
  readonly pool: string;
  readonly providerId: string;
  readonly cpuClass: string;
  readonly rootDirectory: string;
  readonly reservePercent: number;
  readonly pods: number;
  readonly cpu: string | undefined;
  readonly memory: string | undefined;
  readonly storage: string | undefined;
  readonly hugepages: string | undefined;
}

export interface HostResources {
  readonly cpus: number;
  readonly memoryBytes: number;
  readonly availableMemoryBytes: number;
  readonly storageBytes: number;
  readonly availableStorageBytes: number;
  readonly hugepagesBytes: number;
}

async function readHostResources(rootDirectory: string): Promise<HostResources> {
  const [memory, disk] = await Promise.all([readFile("/proc/meminfo", "utf8"), statfs(rootDirectory)]);
  const kibibytes = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(memory)?.[1] ?? 0);
  return {
    cpus: hostSize().cpus,
    memoryBytes: kibibytes("MemTotal") * 1024,
    availableMemoryBytes: kibibytes("MemAvailable") * 1024,
    storageBytes: disk.blocks * disk.bsize,
    availableStorageBytes: disk.bavail * disk.bsize,
    hugepagesBytes: kibibytes("HugePages_Total") * kibibytes("Hugepagesize") * 1024,
  };
}

type Amounts = Readonly<Record<string, string>>;

/** Allocatable is what is left of each after the reserve, in whole units; pods are not reserved. */
export function amountsOf(
  host: HostResources,
  settings: NodeSettings,
): { readonly capacity: Amounts; readonly allocatable: Amounts } {
  const share = (value: number) => Math.floor((value * (100 - settings.reservePercent)) / 100);
  const cpus = settings.cpu === undefined ? host.cpus : wholeUnits(settings.cpu);
  const memory = settings.memory === undefined ? host.memoryBytes : wholeUnits(settings.memory);
  const storage = settings.storage === undefined ? undefined : wholeUnits(settings.storage);
  const huge = settings.hugepages === undefined ? host.hugepagesBytes : wholeUnits(settings.hugepages);
  const of = (storageBytes: number, part: (value: number) => number): Amounts => ({
    cpu: String(part(cpus)),
    memory: String(part(memory)),
    "ephemeral-storage": String(part(storageBytes)),
    pods: String(settings.pods),
    ...(huge > 0 ? { "hugepages-2Mi": String(part(huge)) } : {}),
  });
  return {
    capacity: of(storage ?? host.storageBytes, (value) => value),
    allocatable: of(storage ?? host.availableStorageBytes, share),
  };
}

export function isQuantity(text: string): boolean {
  const quantity = tryParseQuantity(text);
  return quantity !== undefined && quantity.nanos >= 0n;
}

function wholeUnits(text: string): number {
  return Number(parseQuantity(text).nanos / 1_000_000_000n);
}

/** Below these shares the node says so, and the scheduler stays away. */
const pressure = { memory: 0.03, disk: 0.05 };

export async function describeNode(
  settings: NodeSettings,
  runtime: VmRuntime,
  { signal }: Abortable,
): Promise<Omit<NodeDescription, "kubeletPort">> {
  const [description, host] = await Promise.all([
    runtime.describe({ signal }),
    readHostResources(settings.rootDirectory),
  ]);
  return {
    labels: {
      [nodeLabel.pool]: settings.pool,
      [nodeLabel.role]: "",
      ...(settings.cpuClass === "" ? {} : { [nodeLabel.snapshotCpuClass]: settings.cpuClass }),
    },
    taints: [hostTaint],
    ...(settings.providerId === "" ? {} : { providerId: settings.providerId }),
    ...amountsOf(host, settings),
    addresses: [
      { type: "InternalIP", address: settings.ip },
      { type: "Hostname", address: settings.name },
    ],
    nodeInfo: {
      architecture: process.arch === "x64" ? "amd64" : process.arch,
      operatingSystem: "linux",
      kubeletVersion: buildInfo().version,
      containerRuntimeVersion: `${description.hypervisor}://${description.version}`,
    },
    conditions: conditionsOf(host),
  };
}

export function conditionsOf(host: HostResources): NodeDescription["conditions"] {
  const lowMemory = host.availableMemoryBytes < host.memoryBytes * pressure.memory;
  const lowDisk = host.availableStorageBytes < host.storageBytes * pressure.disk;
  const condition = (
    type: string,
    bad: boolean,
    [badReason, goodReason, good]: readonly [string, string, string],
  ) => ({
    type,
    status: bad ? ("True" as const) : ("False" as const),
    reason: bad ? badReason : goodReason,
    message: bad ? `vk-cocoon: ${type}` : good,
  });
  return [
    { type: "Ready", status: "True", reason: "KubeletReady", message: "vk-cocoon is ready" },
    condition("DiskPressure", lowDisk, [
      "KubeletHasDiskPressure",
      "KubeletHasNoDiskPressure",
      "vk-cocoon has no disk pressure",
    ]),
    condition("MemoryPressure", lowMemory, [
      "KubeletHasInsufficientMemory",
      "KubeletHasSufficientMemory",
      "vk-cocoon has sufficient memory",
    ]),
    condition("PIDPressure", false, [
      "",
      "KubeletHasSufficientPID",
      "vk-cocoon has sufficient PID available",
    ]),
    condition("NetworkUnavailable", false, ["", "RouteCreated", "NodeController create implicit route"]),
  ];
}
