/** VMs as the `cocoon` command writes them. Reading accepts what any vintage prints, writing follows the newest base. */
import * as z from "zod";
import { vmStates, type VmState } from "../state.ts";
import type { Hypervisor, Vm, VmConfig, VmDisk, VmExit, VmNic } from "../vm.ts";

const count = z.int().nonnegative();

/** Zero and empty are left out by the writers in Go. */
export const configJsonSchema = z.object({
  name: z.string().optional(),
  cpu: count.optional(),
  memory: count.optional(),
  storage: count.optional(),
  queue_size: count.optional(),
  disk_queue_size: count.optional(),
  image: z.string().optional(),
  image_digest: z.string().optional(),
  image_type: z.string().optional(),
  network: z.string().optional(),
  no_direct_io: z.boolean().optional(),
  windows: z.boolean().optional(),
});

type ConfigJson = z.infer<typeof configJsonSchema>;

const nicJsonSchema = z.object({
  tap: z.string().default(""),
  mac: z.string().default(""),
  num_queues: count.default(0),
  queue_size: count.default(0),
  backend: z.string().optional(),
  bridge_dev: z.string().optional(),
  netns_path: z.string().optional(),
  network: z
    .object({ ip: z.string().optional(), gateway: z.string().optional(), prefix: count.optional() })
    .nullish(),
  /** Ours: ports of the guest that are reachable at another address of the host. */
  forwards: z
    .array(
      z.object({
        protocol: z.enum(["tcp", "udp"]),
        guest_port: count,
        host_address: z.string(),
        host_port: count,
      }),
    )
    .optional(),
});

const diskJsonSchema = z.object({
  path: z.string().default(""),
  ro: z.boolean().default(false),
  serial: z.string().default(""),
  role: z.string().default("data"),
  mount_point: z.string().optional(),
  fstype: z.string().optional(),
  direct_io: z.boolean().optional(),
});

export const vmJsonSchema = z.object({
  id: z.string(),
  hypervisor: z.string().optional(),
  state: z.string(),
  config: configJsonSchema,
  pid: z.int().default(0),
  socket_path: z.string().optional(),
  vsock_socket: z.string().optional(),
  network_configs: z.array(nicJsonSchema).nullish(),
  storage_configs: z.array(diskJsonSchema).nullish(),
  first_booted: z.boolean().default(false),
  snapshot_ids: z.record(z.string(), z.unknown()).nullish(),
  created_at: z.string().default(""),
  updated_at: z.string().default(""),
  started_at: z.string().nullish(),
  stopped_at: z.string().nullish(),
  /** Newest generation: why it is in the state it is in. */
  last_transition_reason: z.string().nullish(),
  last_transition_at: z.string().nullish(),
  /** Ours: how far the guest is, which incarnation it is, and what is wrong with it. */
  guest: z.enum(["unknown", "booting", "refreshing", "ready"]).nullish(),
  epoch: z.string().nullish(),
  problem: z.string().nullish(),
});

export type VmJson = z.input<typeof vmJsonSchema>;

/** Labels that stand for fields which mean nothing here but are kept for the client that set them. */
export const keptLabels = {
  queueSize: "cocoon/queue-size",
  diskQueueSize: "cocoon/disk-queue-size",
  noDirectIo: "cocoon/no-direct-io",
} as const;

export function writeConfigJson(config: VmConfig): ConfigJson {
  const { labels } = config;
  const queueSize = Number(labels[keptLabels.queueSize] ?? 0);
  const diskQueueSize = Number(labels[keptLabels.diskQueueSize] ?? 0);
  return {
    ...(config.cpus > 0 ? { cpu: config.cpus } : {}),
    ...(config.memoryBytes > 0 ? { memory: config.memoryBytes } : {}),
    ...(config.storageBytes > 0 ? { storage: config.storageBytes } : {}),
    ...(queueSize > 0 ? { queue_size: queueSize } : {}),
    ...(diskQueueSize > 0 ? { disk_queue_size: diskQueueSize } : {}),
    ...(config.image ? { image: config.image } : {}),
    ...(config.imageDigest ? { image_digest: config.imageDigest } : {}),
    ...(config.imageType ? { image_type: config.imageType } : {}),
    ...(config.network ? { network: config.network } : {}),
    ...(labels[keptLabels.noDirectIo] === "true" ? { no_direct_io: true } : {}),
    ...(config.os === "windows" ? { windows: true } : {}),
  };
}

export function readConfigJson(json: ConfigJson): VmConfig {
  const labels: Record<string, string> = {};
  if (json.queue_size) labels[keptLabels.queueSize] = String(json.queue_size);
  if (json.disk_queue_size) labels[keptLabels.diskQueueSize] = String(json.disk_queue_size);
  if (json.no_direct_io) labels[keptLabels.noDirectIo] = "true";
  return {
    cpus: json.cpu ?? 0,
    memoryBytes: json.memory ?? 0,
    storageBytes: json.storage ?? 0,
    os: json.windows ? "windows" : "linux",
    ...(json.image ? { image: json.image } : {}),
    ...(json.image_digest ? { imageDigest: json.image_digest } : {}),
    ...(json.image_type === "oci" || json.image_type === "cloudimg" ? { imageType: json.image_type } : {}),
    ...(json.network ? { network: json.network } : {}),
    labels,
  };
}

function writeNicJson(nic: VmNic): z.input<typeof nicJsonSchema> {
  return {
    tap: nic.tap ?? "",
    mac: nic.mac,
    num_queues: nic.queues,
    queue_size: nic.queueSize,
    backend: nic.backend,
    ...(nic.bridge ? { bridge_dev: nic.bridge } : {}),
    ...(nic.netnsPath ? { netns_path: nic.netnsPath } : {}),
    ...(nic.address ? { network: { ...nic.address } } : {}),
    ...(nic.forwards.length > 0
      ? {
          forwards: nic.forwards.map(({ protocol, guestPort, hostAddress, hostPort }) => ({
            protocol,
            guest_port: guestPort,
            host_address: hostAddress,
            host_port: hostPort,
          })),
        }
      : {}),
  };
}

function readNicJson(json: z.output<typeof nicJsonSchema>): VmNic {
  const { ip, prefix, gateway } = json.network ?? {};
  return {
    mac: json.mac,
    backend: json.backend === "bridge" || json.backend === "user" ? json.backend : "cni",
    ...(json.tap ? { tap: json.tap } : {}),
    ...(json.bridge_dev ? { bridge: json.bridge_dev } : {}),
    ...(json.netns_path ? { netnsPath: json.netns_path } : {}),
    ...(ip ? { address: { ip, prefix: prefix ?? 32, ...(gateway ? { gateway } : {}) } } : {}),
    queues: json.num_queues,
    queueSize: json.queue_size,
    forwards: (json.forwards ?? []).map((forward) => ({
      protocol: forward.protocol,
      guestPort: forward.guest_port,
      hostAddress: forward.host_address,
      hostPort: forward.host_port,
    })),
  };
}

function writeDiskJson(disk: VmDisk): z.input<typeof diskJsonSchema> {
  return {
    path: disk.path,
    ro: disk.readOnly,
    serial: disk.serial,
    role: disk.role,
    ...(disk.mountPoint ? { mount_point: disk.mountPoint } : {}),
    ...(disk.fsType ? { fstype: disk.fsType } : {}),
  };
}

function readDiskJson(json: z.output<typeof diskJsonSchema>): VmDisk {
  const roles = ["layer", "cow", "cidata", "data"] as const;
  return {
    path: json.path,
    role: roles.find((role) => role === json.role) ?? "data",
    serial: json.serial,
    readOnly: json.ro,
    ...(json.mount_point ? { mountPoint: json.mount_point } : {}),
    ...(json.fstype === "ext4" || json.fstype === "none" ? { fsType: json.fstype } : {}),
  };
}

export function writeVmJson(vm: Vm): VmJson {
  return {
    id: vm.id,
    hypervisor: vm.hypervisor,
    state: vm.state,
    config: { ...writeConfigJson(vm.config), name: vm.name },
    pid: vm.pid ?? 0,
    ...(vm.socketPath ? { socket_path: vm.socketPath } : {}),
    ...(vm.nics.length > 0 ? { network_configs: vm.nics.map(writeNicJson) } : {}),
    ...(vm.disks.length > 0 ? { storage_configs: vm.disks.map(writeDiskJson) } : {}),
    first_booted: vm.firstBooted,
    ...(vm.snapshotIds.length > 0
      ? { snapshot_ids: Object.fromEntries(vm.snapshotIds.map((id) => [id, {}])) }
      : {}),
    created_at: vm.createdAt,
    updated_at: vm.updatedAt,
    ...(vm.startedAt ? { started_at: vm.startedAt } : {}),
    ...(vm.stoppedAt ? { stopped_at: vm.stoppedAt } : {}),
    ...(vm.lastExit
      ? { last_transition_reason: transitionReasons[vm.lastExit.reason], last_transition_at: vm.lastExit.at }
      : {}),
    guest: vm.guest,
    epoch: vm.epoch,
    ...(vm.problem ? { problem: vm.problem } : {}),
  };
}

/** In the words of the newest generation, which knows one for every end that was not requested. */
const transitionReasons = {
  stopped: "stop-user",
  guest: "stop-guest",
  killed: "unexpected-exit",
  crashed: "unexpected-exit",
  lost: "unexpected-exit",
} as const;

function readExitJson(reason: string | null | undefined, at: string): VmExit | undefined {
  if (reason === "stop-user") return { reason: "stopped", at };
  if (reason === "stop-guest") return { reason: "guest", at };
  return reason === "unexpected-exit" ? { reason: "lost", at } : undefined;
}

/** `stopped (stale)` is a VM whose process was found dead. Words of other vintages count as `error`. */
export function parseStateText(text: string): VmState {
  if (text.startsWith("stopped")) return "stopped";
  return vmStates.find((state) => state === text) ?? "error";
}

export function readVmJson(json: z.output<typeof vmJsonSchema>, hypervisor: Hypervisor): Vm {
  return {
    id: json.id,
    name: json.config.name ?? "",
    state: parseStateText(json.state),
    hypervisor,
    config: readConfigJson(json.config),
    origin: { kind: "image", image: json.config.image ?? "" },
    ...(json.pid > 0 ? { pid: json.pid } : {}),
    ...(json.socket_path ? { socketPath: json.socket_path } : {}),
    nics: (json.network_configs ?? []).map(readNicJson),
    disks: (json.storage_configs ?? []).map(readDiskJson),
    snapshotIds: Object.keys(json.snapshot_ids ?? {}),
    guest: json.guest ?? "unknown",
    epoch: json.epoch ?? json.started_at ?? "",
    firstBooted: json.first_booted,
    ...readHistoryJson(json),
  };
}

function readHistoryJson(
  json: z.output<typeof vmJsonSchema>,
): Pick<Vm, "createdAt" | "updatedAt" | "startedAt" | "stoppedAt" | "lastExit" | "problem"> {
  const exit = readExitJson(json.last_transition_reason, json.last_transition_at ?? json.updated_at);
  return {
    createdAt: json.created_at,
    updatedAt: json.updated_at,
    ...(json.started_at ? { startedAt: json.started_at } : {}),
    ...(json.stopped_at ? { stoppedAt: json.stopped_at } : {}),
    ...(exit ? { lastExit: exit } : {}),
    ...(json.problem ? { problem: json.problem } : {}),
  };
}
