/** What the node says of itself: capacity, labels, conditions. */
import { readFile, statfs } from "node:fs/promises";
import { hostTaint, isDnsSubdomain, nodeAnnotation, nodeLabel } from "@cocoon/contract";
import { buildInfo, Fault, type Abortable } from "@cocoon/core";
import { parseQuantity, tryParseQuantity } from "@cocoon/core/quantity";
import type { NodeDescription } from "@cocoon/kubelet";
import type { Vm, VmRuntime } from "@cocoon/vm";
import { hostSize } from "./stats.ts";

export interface NodeSettings {
  readonly name: string;
  readonly ip: string;
  readonly pool: string;
  readonly providerId: string;
  readonly cpuClass: string;
  /** NetworkPolicies hold for its machines. */
  readonly honoursPolicies?: boolean;
  readonly rootDirectory: string;
  readonly reservePercent: number;
  readonly pods: number;
  readonly cpu: string | undefined;
  readonly memory: string | undefined;
  readonly storage: string | undefined;
  readonly hugepages: string | undefined;
}

/** Two hosts must not have one name, so the default is the host's own. */
export function chooseNodeName(configured: string | undefined, host: string): string {
  const name = configured ?? host.toLowerCase();
  if (isDnsSubdomain(name)) return name;
  throw new Fault(
    "invalid",
    `"${name.slice(0, 253)}" cannot be the name of a node (lower case letters, digits, "-" and "."); set VK_NODE_NAME`,
  );
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
export function computeAmounts(
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

export interface NodeMachines {
  readonly runtime: VmRuntime;
  /** Whether a pod of this node has a machine of that name. */
  readonly isClaimed: (vmName: string) => boolean;
}

export async function describeNode(
  settings: NodeSettings,
  { runtime, isClaimed }: NodeMachines,
  { signal }: Abortable,
): Promise<Omit<NodeDescription, "kubeletPort">> {
  const [description, host, vms] = await Promise.all([
    runtime.describe({ signal }),
    readHostResources(settings.rootDirectory),
    runtime.list({ signal }),
  ]);
  return {
    labels: {
      [nodeLabel.pool]: settings.pool,
      [nodeLabel.role]: "",
      ...(settings.cpuClass === "" ? {} : { [nodeLabel.snapshotCpuClass]: settings.cpuClass }),
      ...(settings.honoursPolicies ? { [nodeLabel.networkPolicy]: "enforced" } : {}),
    },
    annotations: {
      [nodeAnnotation.machines]: formatMachines(vms, (vm) => !isFrozen(vm, isClaimed)),
      [nodeAnnotation.frozenMachines]: formatMachines(vms, (vm) => isFrozen(vm, isClaimed)),
    },
    taints: [hostTaint],
    ...(settings.providerId === "" ? {} : { providerId: settings.providerId }),
    ...computeAmounts(host, settings),
    addresses: [
      { type: "InternalIP", address: settings.ip },
      { type: "Hostname", address: settings.name },
    ],
    nodeInfo: {
      architecture: process.arch === "x64" ? "amd64" : process.arch,
      operatingSystem: "linux",
      kubeletVersion: buildInfo().version,
      containerRuntimeVersion: `${description.engine}://${description.version}`,
    },
    conditions: buildConditions(host),
  };
}

/** More than a node takes pods; all annotations of an object together have 256 KiB. */
const maxMachines = 2_000;

type NamedVm = Pick<Vm, "name" | "state">;

/** An orphan that is paused: a pod of another node had its machine when it was frozen. */
export function isFrozen({ name, state }: NamedVm, isClaimed: NodeMachines["isClaimed"]): boolean {
  return state === "paused" && !isClaimed(name);
}

/** VMs that this program did not name are not machines of the cluster. */
export function formatMachines(vms: readonly NamedVm[], belongs: (vm: NamedVm) => boolean): string {
  return vms
    .filter((vm) => vm.name.startsWith("vk-") && belongs(vm))
    .map(({ name }) => name)
    .toSorted()
    .slice(0, maxMachines)
    .join(",");
}

export function buildConditions(host: HostResources): NodeDescription["conditions"] {
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
