/** Makes a VM the way the plan chose. Each may be repeated: a name that is taken is found by the next look. */
import { access } from "node:fs/promises";
import { annotation, formatImageReference, latestTag, tryParseImageReference } from "@cocoon/contract";
import { Fault, messageOf, type Abortable } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { cpuPolicyOf, readMachine, sizeOf, type Machine, type MachineSize } from "../machine.ts";
import type { PodWriter } from "../pod-writer.ts";
import { canonicalDirectory } from "./clone-directory.ts";
import { dropLocal } from "./local-snapshot.ts";
import type { SleepingSnapshot, Step } from "./plan.ts";
import { prepareGuest } from "./prepare-guest.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";

type BringUp = Extract<Step, { kind: "restore" | "cloneFromDir" | "fork" | "run" | "clone" | "decideMode" }>;

export async function bringUp(context: StepContext, step: BringUp, options: Abortable): Promise<void> {
  const { metrics, writer } = context;
  const machine = readMachine(writer.pod);
  const took = metrics.bootSeconds.startTimer({ mode: step.kind, backend: machine.vm.backend });
  try {
    await assertSystem(machine, context.macosBin);
    const vm = await makeVm(context, { step, machine }, options);
    took();
    void prepareGuest(context, { vm, cloned: vm.origin.kind !== "image" }, { signal: context.signal });
    if (step.kind === "restore") metrics.wake.inc({ result: "ok" });
  } catch (error) {
    if (step.kind === "restore") metrics.wake.inc({ result: "failed" });
    const reason = step.kind === "restore" ? "WakeCloneFailed" : "CreateBringUpFailed";
    context.tell({ type: "Warning", reason, message: messageOf(error) });
    throw error;
  }
}

interface Making {
  readonly step: BringUp;
  readonly machine: Machine;
}

async function makeVm(context: StepContext, { step, machine }: Making, options: Abortable): Promise<Vm> {
  switch (step.kind) {
    case "restore":
      return restore(context, { snapshot: step.snapshot, machine }, options);
    case "cloneFromDir":
      return cloneFromDirectory(context, { directory: step.directory, machine }, options);
    case "fork":
      return context.runtime.fork({ ...commonSpec(context, machine), source: step.source }, options);
    case "run":
      return runImage(context, machine, options);
    case "clone":
      return cloneSnapshot(context, machine, options);
    default:
      return (await isSnapshotImage(context, machine, options))
        ? cloneSnapshot(context, machine, options)
        : runImage(context, machine, options);
  }
}

/** macOS needs a host with Apple's hardware and a program of its own; nothing else can stand in for it. */
async function assertSystem({ vm }: Machine, macosBin: string): Promise<void> {
  if (vm.os !== "macos") return;
  const there =
    macosBin !== "" &&
    (await access(macosBin).then(
      () => true,
      () => false,
    ));
  throw new Fault(
    "preconditionFailed",
    there
      ? `${annotation.os} is macos, and ${macosBin} exists, but this version cannot drive it yet`
      : `${annotation.os} is macos, but this node has no program for it (VK_COCOON_MACOS_BIN: ${macosBin || "not set"}); choose a node that has`,
  );
}

/** Whose VM it is: found again at start, and compared when two nodes have one machine. */
export const vmLabel = { pod: "cocoon.pod", uid: "cocoon.pod-uid", generation: "cocoon.generation" } as const;

function commonSpec({ writer }: StepContext, machine: Machine) {
  const { namespace, name, uid = "" } = writer.pod.metadata;
  return {
    name: machine.vm.vmName,
    ...(machine.vm.network === "" ? {} : { network: machine.vm.network }),
    ports: portsOf(writer, machine),
    cpuPolicy: cpuPolicyOf(writer.pod),
    labels: {
      [vmLabel.pod]: `${namespace}/${name}`,
      [vmLabel.uid]: uid,
      [vmLabel.generation]: String(machine.generation),
    },
  };
}

function portsOf({ pod }: PodWriter, machine: Machine) {
  const named = pod.spec.containers.flatMap((container) => container.ports ?? []);
  const wanted = new Map(
    named.map((port) => {
      const protocol = port.protocol?.toLowerCase() === "udp" ? ("udp" as const) : ("tcp" as const);
      return [`${protocol} ${port.containerPort}`, { protocol, guestPort: port.containerPort }];
    }),
  );
  if (machine.probePort)
    wanted.set(`tcp ${machine.probePort}`, { protocol: "tcp", guestPort: machine.probePort });
  return [...wanted.values()];
}

async function runImage(context: StepContext, machine: Machine, options: Abortable): Promise<Vm> {
  const { runtime, writer, login } = context;
  const { image, forcePull, os, storage } = machine.vm;
  if (image === "") throw new Fault("invalid", `${annotation.image} is empty: there is nothing to boot`);
  if (await isSnapshotImage(context, machine, options))
    throw new Fault("invalid", `${image} is a snapshot; use mode clone for it`);
  await runtime.images.pull(image, { force: forcePull, ...options });
  const { minimumMemoryBytes, minimumStorageBytes } = await runtime.describe(options);
  const size = atLeast(sizeOf(writer.pod, storage), { minimumMemoryBytes, minimumStorageBytes });
  return runtime.run(
    {
      ...commonSpec(context, machine),
      ...size,
      image,
      os: os === "windows" || os === "android" ? os : "linux",
      login: { ...login, env: environmentOf(writer) },
    },
    options,
  );
}

/** An engine refuses what is too small for it; a pod that asks for less gets the least there is. */
function atLeast(
  size: MachineSize,
  least: { readonly minimumMemoryBytes: number; readonly minimumStorageBytes: number },
): MachineSize {
  const { memoryBytes, storageBytes } = size;
  return {
    ...size,
    ...(memoryBytes === undefined ? {} : { memoryBytes: Math.max(memoryBytes, least.minimumMemoryBytes) }),
    ...(storageBytes === undefined
      ? {}
      : { storageBytes: Math.max(storageBytes, least.minimumStorageBytes) }),
  };
}

function environmentOf({ pod }: PodWriter): Record<string, string> {
  const variables = pod.spec.containers[0]?.env ?? [];
  return Object.fromEntries(variables.map(({ name, value }) => [name, value ?? ""]));
}

async function cloneSnapshot(context: StepContext, machine: Machine, options: Abortable): Promise<Vm> {
  const { image } = machine.vm;
  const reference = tryParseImageReference(image);
  if (!reference || reference.kind !== "registry")
    throw new Fault(
      "invalid",
      `${annotation.image}: "${image.slice(0, 200)}" does not name a snapshot; mode clone needs one`,
    );
  const { registry: _host, digest, tag = latestTag, repository } = reference;
  const local =
    digest || tag !== latestTag
      ? formatImageReference({ kind: "registry", repository, tag: digest ? digest.slice(7, 19) : tag })
      : repository;
  const { snapshots } = context;
  const snapshot = snapshots
    ? await snapshots.ensureLocal({ repository, reference: digest ?? tag }, shortName(local), options)
    : await context.runtime.snapshots.inspect(shortName(local), options);
  return cloneFrom(context, { snapshot: snapshot.id, machine }, options);
}

/** Local names have at most 63 characters. */
function shortName(name: string): string {
  return name.length <= 63 ? name : name.slice(-63).replace(/^[^a-z0-9]+/, "");
}

async function cloneFrom(
  context: StepContext,
  { snapshot, machine }: { readonly snapshot: string; readonly machine: Machine },
  options: Abortable,
): Promise<Vm> {
  // Windows does not stand memory that comes in late.
  const restoreMode = machine.vm.os === "windows" ? "copy" : context.restoreMode;
  return context.runtime.clone({ ...commonSpec(context, machine), snapshot, restoreMode }, options);
}

async function restore(
  context: StepContext,
  { snapshot, machine }: { readonly snapshot: SleepingSnapshot; readonly machine: Machine },
  options: Abortable,
): Promise<Vm> {
  const name = machine.vm.vmName;
  const source = { repository: name, reference: snapshot.digest };
  let local;
  try {
    local = await requireSnapshots(context).ensureLocal(source, name, options);
  } catch (error) {
    context.tell({ type: "Warning", reason: "WakePullFailed", message: messageOf(error) });
    throw error;
  }
  const vm = await cloneFrom(context, { snapshot: local.id, machine }, options);
  await context.writer.write({ [annotation.restoredFrom]: snapshot.snapshotId }, options);
  return vm;
}

async function cloneFromDirectory(
  context: StepContext,
  { directory, machine }: { readonly directory: string; readonly machine: Machine },
  options: Abortable,
): Promise<Vm> {
  const path = await canonicalDirectory(directory, context.cloneRoots);
  const name = `dir-${machine.vm.vmName}`;
  await dropLocal(context, name, options);
  const snapshot = await context.runtime.snapshots.importDirectory(path, { name, ...options });
  try {
    return await cloneFrom(context, { snapshot: snapshot.id, machine }, options);
  } finally {
    await dropLocal(context, name, options);
  }
}

/** URLs and digests are images; of other names the registry knows what they are. */
async function isSnapshotImage(
  { snapshots }: StepContext,
  machine: Machine,
  options: Abortable,
): Promise<boolean> {
  const reference = tryParseImageReference(machine.vm.image);
  if (!snapshots || !reference || reference.kind === "url" || reference.digest) return false;
  return (await snapshots.kindOf(machine.vm.image, options)) === "snapshot";
}
