/** What a VM is to be before it exists: everything that is decided from the request alone. */
import { randomUUID } from "node:crypto";
import { Fault } from "@cocoon/core";
import type {
  BootableImage,
  CloneSpec,
  NetworkSpec,
  RunSpec,
  VmConfig,
  VmNetwork,
  VmOrigin,
} from "@cocoon/vm";
import { assertVmName } from "@cocoon/vm/engine";
import type { QemuContext } from "../context.ts";
import type { Machine } from "./machine.ts";
import { checkNetworkSpec, type Sizes } from "./request-checks.ts";
import type { SnapshotDescription } from "../snapshot/snapshot-description.ts";

export interface Blueprint {
  readonly name: string;
  readonly config: VmConfig;
  readonly origin: VmOrigin;
  readonly machine: Machine;
  readonly imageBlobIds: readonly string[];
  readonly hasAgent: boolean;
  readonly cpuPolicy: CloneSpec["cpuPolicy"];
  readonly networkSpec: NetworkSpec;
  readonly network: VmNetwork | undefined;
}

export interface CloneSource {
  readonly directory: string;
  readonly description: SnapshotDescription;
  readonly origin: VmOrigin;
}

export function imageBlueprint(
  context: QemuContext,
  { spec, sizes, image }: { readonly spec: RunSpec; readonly sizes: Sizes; readonly image: BootableImage },
): Blueprint {
  return {
    name: spec.name,
    config: buildConfig(spec, sizes, image),
    origin: { kind: "image", image: spec.image },
    machine: buildMachine(context, image, { sizes, display: spec.display ?? false }),
    imageBlobIds: image.blobIds,
    hasAgent: image.agent,
    cpuPolicy: spec.cpuPolicy,
    networkSpec: spec,
    network: findNetwork(context, spec),
  };
}

export function cloneBlueprint(
  context: QemuContext,
  spec: Omit<CloneSpec, "snapshot">,
  { description, origin }: CloneSource,
): Blueprint {
  assertVmName(spec.name);
  checkNetworkSpec(spec);
  const storageBytes = checkClone(spec, description);
  const networkSpec = { ...spec, nics: spec.nics ?? description.nics.length };
  return {
    name: spec.name,
    config: cloneConfig(spec, description.config, storageBytes),
    origin,
    machine: {
      ...description.machine,
      uuid: randomUUID(),
      generationId: randomUUID(),
    },
    imageBlobIds: description.imageBlobIds,
    hasAgent: description.hasAgent,
    cpuPolicy: spec.cpuPolicy,
    networkSpec,
    network: findNetwork(context, networkSpec),
  };
}

export function findNetwork(context: QemuContext, spec: NetworkSpec): VmNetwork | undefined {
  if (spec.nics === 0) return undefined;
  const [first] = context.networks.keys();
  const name = spec.network ?? first ?? "";
  const network = context.networks.get(name);
  if (network) return network;
  const known = [...context.networks.keys()].join(", ") || "none";
  throw new Fault("invalid", `network "${name}" is unknown; there are: ${known}`);
}

function buildConfig(spec: RunSpec, sizes: Sizes, image: BootableImage): VmConfig {
  if (spec.os === "macos") throw new Fault("notSupported", "the built-in engine does not run macOS guests");
  return {
    ...sizes,
    os: spec.os ?? image.os,
    image: image.image.name,
    imageDigest: image.image.id,
    imageType: image.image.type,
    ...(spec.network === undefined ? {} : { network: spec.network }),
    labels: spec.labels ?? {},
  };
}

function cloneConfig(spec: Omit<CloneSpec, "snapshot">, config: VmConfig, storageBytes: number): VmConfig {
  const { network: _network, ...rest } = config;
  return {
    ...rest,
    storageBytes,
    ...(spec.network === undefined ? {} : { network: spec.network }),
    labels: spec.labels ?? {},
  };
}

/** CPU and memory are what the saved guest has; the disk may grow. Returns its size. */
function checkClone(spec: Omit<CloneSpec, "snapshot">, { config, nics }: SnapshotDescription): number {
  const fixed = [
    { what: "cpu", requested: spec.cpus, has: config.cpus },
    { what: "memory", requested: spec.memoryBytes, has: config.memoryBytes },
    { what: "nics", requested: spec.nics, has: nics.length },
  ];
  for (const { what, requested, has } of fixed) {
    if (requested === undefined || requested === has) continue;
    if (requested < has) throw new Fault("invalid", `--${what} ${requested} below snapshot minimum ${has}`);
    throw new Fault(
      "notSupported",
      `--${what} ${requested} exceeds the snapshot's ${has}: a clone keeps what it was saved with`,
    );
  }
  const storageBytes = spec.storageBytes ?? config.storageBytes;
  if (storageBytes < config.storageBytes)
    throw new Fault("invalid", `--storage ${storageBytes} below snapshot minimum ${config.storageBytes}`);
  return Math.ceil(storageBytes / 512) * 512;
}

function buildMachine(
  context: QemuContext,
  image: BootableImage,
  { sizes, display }: { readonly sizes: Sizes; readonly display: boolean },
): Machine {
  const { host } = context;
  const windows = image.os === "windows";
  return {
    type: image.firmware === "uefi" ? host.machineTypes.q35 : host.machineTypes.pc,
    accelerator: host.accelerator,
    cpuModel: host.cpuModel,
    cpuClass: host.cpuClass,
    cpus: sizes.cpus,
    memoryBytes: sizes.memoryBytes,
    firmware: image.firmware,
    os: image.os,
    ...(image.kernel
      ? {
          kernel: {
            commandLine: `console=ttyS0 reboot=t panic=-1 ${image.kernel.commandLine}`.trim(),
            initrd: image.kernel.initrdPath !== undefined,
          },
        }
      : {}),
    nicModel: windows ? "e1000e" : "virtio-net-pci",
    display,
    generationId: randomUUID(),
    uuid: randomUUID(),
    qemuVersion: host.version,
  };
}
