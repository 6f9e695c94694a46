/** Boots a machine from an image: made local first, by the engine itself or as a stream out of the registry. */
import { Readable } from "node:stream";
import {
  annotation,
  isWindowsPod,
  tryParseImageReference,
  wantsScreen,
  type ArtifactKind,
} from "@cocoon/contract";
import { Fault, type Abortable, ignoreFault } from "@cocoon/core";
import { builtInImageNames } from "@cocoon/images";
import type { Pod } from "@cocoon/kubelet";
import type { CloneSpec, GuestOs, Vm } from "@cocoon/vm";
import { readCpuPolicy, readWantedSize } from "../machine-size.ts";
import { readPodNetwork } from "../pod-network.ts";
import type { PodMachine } from "../pod-machine.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";
import { vmLabel } from "./vm-labels.ts";

/** What every VM of a machine is made with, from an image or from a snapshot. */
type CommonSpec = Pick<
  CloneSpec,
  "name" | "network" | "directIo" | "ports" | "cpuPolicy" | "pod" | "hostPorts" | "bandwidth" | "dns"
> & {
  readonly labels: Readonly<Record<string, string>>;
};

export function buildCommonSpec({ tracked: { writer }, dns }: StepContext, machine: PodMachine): CommonSpec {
  const { namespace, name, uid = "" } = writer.pod.metadata;
  return {
    name: machine.vm.vmName,
    ...(machine.vm.network === "" ? {} : { network: machine.vm.network }),
    ...(machine.vm.noDirectIo ? { directIo: false } : {}),
    ports: readPorts(writer.pod, machine),
    ...readPodNetwork(writer.pod, dns),
    cpuPolicy: readCpuPolicy(writer.pod),
    labels: {
      [vmLabel.pod]: `${namespace}/${name}`,
      [vmLabel.uid]: uid,
      [vmLabel.generation]: String(machine.generation),
      [vmLabel.image]: machine.vm.image,
    },
  };
}

function readPorts({ spec }: StepContext["tracked"]["writer"]["pod"], { probePort }: PodMachine) {
  const named = spec.containers.flatMap(({ ports }) => ports ?? []);
  const wanted = new Map(
    named.map((port) => {
      const protocol = port.protocol?.toLowerCase() === "udp" ? ("udp" as const) : ("tcp" as const);
      return [`${protocol} ${port.containerPort}`, { protocol, guestPort: port.containerPort }];
    }),
  );
  if (probePort) wanted.set(`tcp ${probePort}`, { protocol: "tcp", guestPort: probePort });
  return [...wanted.values()];
}

export async function bootImage(context: StepContext, machine: PodMachine, options: Abortable): Promise<Vm> {
  const { runtime, login, description, tracked } = context;
  const { pod } = tracked.writer;
  const variables = pod.spec.containers[0]?.env ?? [];
  const image = await ensureImage(context, machine, options);
  return runtime.run(
    {
      ...buildCommonSpec(context, machine),
      ...readWantedSize(pod, description),
      image,
      os: readSystem(pod, machine),
      ...(description.can.display && wantsScreen(machine.vm) ? { display: true } : {}),
      ...(machine.vm.backend === "firecracker" ? { backend: machine.vm.backend } : {}),
      login: { ...login, env: Object.fromEntries(variables.map(({ name, value }) => [name, value ?? ""])) },
    },
    options,
  );
}

function readSystem(pod: Pod, { vm: { os }, isMacos }: PodMachine): GuestOs {
  if (isWindowsPod(pod)) return "windows";
  if (isMacos) return "macos";
  return os.toLowerCase() === "android" ? "android" : "linux";
}

/** Returns the name that the engine knows it by. Registry cloud images are a format that an external command cannot pull. */
async function ensureImage(context: StepContext, machine: PodMachine, options: Abortable): Promise<string> {
  const { runtime, description } = context;
  const { image, forcePull } = machine.vm;
  if (image === "") throw new Fault("invalid", `${annotation.image} is empty: there is nothing to boot`);
  if (machine.isMacos) return image; // cocoon-macos has a store of its own, and pulls into it
  const kind = await findKind(context, image, options);
  if (kind === "snapshot") throw new Fault("invalid", `${image} is a snapshot; use mode clone for it`);
  if (kind === "cloud-image" && description.engine !== "qemu") return importDisk(context, image, options);
  await runtime.images.pull(image, { force: forcePull, ...options });
  return image;
}

/** By digest: what was imported once is not imported again, and a tag that moved is. */
async function importDisk(context: StepContext, image: string, options: Abortable): Promise<string> {
  const { images } = context.runtime;
  const { name, content } = await requireSnapshots(context).openDisk(image, options);
  const known = await ignoreFault("notFound", images.inspect(name, options));
  if (known) return known.name;
  return (await images.import(name, [Readable.from(content, { objectMode: false })], options)).name;
}

/** Of a name in the snapshots' registry; URLs, and names that say another registry, are images. */
async function findKind(
  { snapshots }: StepContext,
  image: string,
  options: Abortable,
): Promise<ArtifactKind | undefined> {
  const reference = tryParseImageReference(image);
  return reference?.kind === "registry" ? snapshots?.inRegistry.findKind(image, options) : undefined;
}

/** A digest names an image: what a snapshot's digest is cloned by is mode clone. */
export async function isSnapshotImage(
  context: StepContext,
  { vm: { image } }: PodMachine,
  options: Abortable,
): Promise<boolean> {
  const reference = tryParseImageReference(image);
  if (reference?.kind !== "registry" || reference.digest) return false;
  return (await findKind(context, image, options)) === "snapshot";
}

/** Throws unless the registry holds an image under this name, or the node has one and the registry has nothing. */
export async function assertBootable(
  { snapshots, runtime }: StepContext,
  { mode, vm: { image } }: PodMachine,
  options: Abortable,
): Promise<void> {
  const kind = await snapshots?.inRegistry.findKind(image, options);
  const isImage = kind === "container-image" || kind === "cloud-image";
  const isHere = kind === undefined && (await isKnownImage(runtime, image, options));
  if (mode === "clone" && (isImage || isHere)) return;
  throw new Fault(
    kind === undefined ? "notFound" : "invalid",
    `image "${image.slice(0, 200)}" (spec.agent.image or spec.toolboxes[].image): the registry has ${kind === undefined ? "no snapshot or image of that name, nor has this node" : `no snapshot but a ${kind} under that name`}; \`cocoonctl images\` and \`cocoonctl snapshot ls\` list what exists, mode run boots an image of another registry by its full name`,
  );
}

async function isKnownImage(
  runtime: StepContext["runtime"],
  image: string,
  options: Abortable,
): Promise<boolean> {
  if (builtInImageNames.includes(image)) return true;
  return (await ignoreFault("notFound", runtime.images.inspect(image, options))) !== undefined;
}
