/** The persistent record of one VM: `vm.json`. Written whole and atomically; read through this schema. */
import { join } from "node:path";
import { processIdentitySchema } from "@cocoon/core";
import * as z from "zod";
import { machineSchema } from "../machine/machine.ts";
import { type Vm, vmStates } from "@cocoon/vm";
import { idPattern } from "@cocoon/vm/engine";
import { vmFile } from "./layout.ts";

export const recordVersion = 1;

const count = z.int().nonnegative();

export const configSchema = z.object({
  cpus: z.int().positive(),
  memoryBytes: z.int().positive(),
  storageBytes: count,
  os: z.enum(["linux", "windows", "android", "macos"]),
  image: z.string().exactOptional(),
  imageDigest: z.string().exactOptional(),
  imageType: z.enum(["oci", "cloudimg"]).exactOptional(),
  network: z.string().exactOptional(),
  labels: z.record(z.string(), z.string()),
});

const forwardSchema = z.object({
  protocol: z.enum(["tcp", "udp"]),
  guestPort: count,
  hostAddress: z.string(),
  hostPort: count,
});

const addressSchema = z.object({ ip: z.string(), prefix: count, gateway: z.string().exactOptional() });

const nicPlanSchema = z.object({
  nic: z.object({
    mac: z.string(),
    backend: z.enum(["user", "bridge", "cni"]),
    tap: z.string().exactOptional(),
    bridge: z.string().exactOptional(),
    netnsPath: z.string().exactOptional(),
    address: addressSchema.exactOptional(),
    queues: count,
    queueSize: count,
    forwards: z.array(forwardSchema),
  }),
  guest: z.object({
    mac: z.string(),
    address: addressSchema.exactOptional(),
    dns: z.array(z.string()),
    searches: z.array(z.string()).exactOptional(),
    mtu: count.exactOptional(),
  }),
  netdev: z.string(),
  refreshMac: z.boolean(),
});

/** Goes into QEMU's arguments, so nothing that could be taken for another option. */
const plainName = z.string().regex(/^[\w][\w.-]{0,200}$/);

const layerSchema = z.object({ file: plainName, format: z.enum(["qcow2", "raw"]) });

/** One disk: its layers from the base to the one that the guest writes. */
export const diskSchema = z.object({
  name: plainName,
  role: z.enum(["cow", "cidata", "data"]),
  serial: plainName,
  readOnly: z.boolean(),
  virtualBytes: count,
  layers: z.array(layerSchema).min(1),
  mountPoint: z.string().exactOptional(),
  fsType: z.enum(["ext4", "none"]).exactOptional(),
});

const exitSchema = z.object({
  reason: z.enum(["guest", "stopped", "killed", "crashed", "lost"]),
  at: z.string(),
  detail: z.string().exactOptional(),
});

const originSchema = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("image"), image: z.string() }),
  z.object({ kind: z.literal("snapshot"), snapshotId: z.string(), snapshotName: z.string() }),
  z.object({ kind: z.literal("fork"), sourceVmId: z.string(), snapshotId: z.string() }),
]);

const guestIdentitySchema = z.object({
  hostname: z.string(),
  machineId: z.string(),
  instanceId: z.string(),
});

export const vmRecordSchema = z.object({
  version: z.literal(recordVersion),
  id: z.string().regex(idPattern),
  name: z.string(),
  state: z.enum(vmStates),
  config: configSchema,
  origin: originSchema,
  machine: machineSchema,
  /** Directory of the machine's files, below the VM's. */
  files: plainName,
  process: processIdentitySchema.exactOptional(),
  /** User that QEMU runs as; absent = ours. */
  uid: count.exactOptional(),
  nics: z.array(nicPlanSchema),
  disks: z.array(diskSchema),
  /** Hex digests of the image blobs below. */
  imageBlobIds: z.array(z.string()),
  snapshotIds: z.array(z.string()),
  hasAgent: z.boolean(),
  guest: z.enum(["unknown", "booting", "refreshing", "ready"]),
  identity: guestIdentitySchema,
  epoch: z.string(),
  cpuPolicy: z
    .object({
      weight: count.exactOptional(),
      quotaMicros: count.exactOptional(),
      periodMicros: count.exactOptional(),
    })
    .exactOptional(),
  firstBooted: z.boolean(),
  /** What the guest of this process began with. */
  startedFrom: z.enum(["boot", "snapshot"]).exactOptional(),
  /** How often it was reset because it did not boot, since it was last ready or started. */
  bootResets: count.exactOptional(),
  createdAt: z.string(),
  updatedAt: z.string(),
  startedAt: z.string().exactOptional(),
  stoppedAt: z.string().exactOptional(),
  /** When a stop was requested; the guest may need a while. */
  stopAskedAt: z.string().exactOptional(),
  lastExit: exitSchema.exactOptional(),
  /**
   * Files that QEMU reads through a mount. `loading`: they are still coming from that snapshot of the registry. `local`: all
   * are here, and only the memory is still mapped through the mount.
   */
  lazy: z
    .object({
      state: z.enum(["loading", "local"]),
      repository: z.string(),
      digest: z.string(),
      files: z.array(plainName),
    })
    .exactOptional(),
  problem: z.string().exactOptional(),
});

export type VmRecord = Readonly<z.infer<typeof vmRecordSchema>>;
export type DiskRecord = Readonly<z.infer<typeof diskSchema>>;

/** The record as the port shows it. */
export function toVm(record: VmRecord, directory: string): Vm {
  const { version: _version, machine: _machine, files, identity: _identity, ...rest } = record;
  const {
    imageBlobIds: _blobs,
    hasAgent: _agent,
    cpuPolicy: _policy,
    stopAskedAt: _asked,
    startedFrom: _from,
    uid: _uid,
    bootResets: _resets,
    lazy: _lazy,
    process,
    ...shown
  } = rest;
  return {
    ...shown,
    hypervisor: "qemu",
    ...(process ? { pid: process.pid, socketPath: join(directory, vmFile.qmp) } : {}),
    nics: record.nics.map((plan) => plan.nic),
    disks: record.disks.map(({ name: _name, layers, virtualBytes: _bytes, ...disk }) => ({
      ...disk,
      path: join(directory, files, layers.at(-1)?.file ?? ""),
    })),
  };
}
