/**
 * Makes VMs: from an image, or from a saved one. The order makes crashes harmless: the directory (locked, state
 * `creating`) comes before the name, the name before the network, all files before the process; a VM counts as made when
 * its record says `running` or `created`. Until then any process that finds it unlocked removes it (`recover.ts`).
 */
import { createHash } from "node:crypto";
import { join } from "node:path";
import { Fault, getErrorMessage, syncDirectory, type Abortable, type ProcessIdentity } from "@cocoon/core";
import type { BootableImage, CloneOptions, CloneSpec, RunSpec } from "@cocoon/vm";
import { newId } from "@cocoon/vm/engine";
import { machineFile } from "../store/layout.ts";
import { recordVersion, type VmRecord } from "../store/vm-record.ts";
import {
  cloneBlueprint,
  findNetwork,
  imageBlueprint,
  type Blueprint,
  type CloneSource,
} from "./blueprint.ts";
import { removeCgroup } from "../process/cgroup.ts";
import type { QemuContext } from "../context.ts";
import { prepareNics } from "./attach-network.ts";
import { filesFromImage, filesFromSnapshot, linkEmptyMemory } from "./machine-files.ts";
import { syncFilesIn } from "../store/durable.ts";
import { allocateUid } from "../process/jail.ts";
import { endEverything } from "../process/process.ts";
import { checkRun } from "./request-checks.ts";
import { assertFits, type SnapshotDescription } from "../snapshot/snapshot-description.ts";
import { startMachine, type StartOptions } from "../process/start-machine.ts";
import { startMerges } from "../disk/merge-layers.ts";

const firstFiles = "files-1";

/** Resolves when the guest's CPU runs, or, with `start: false`, when everything is in place. */
export async function runVm(context: QemuContext, spec: RunSpec, options: Abortable): Promise<VmRecord> {
  const sizes = checkRun(spec, context.settings);
  findNetwork(context, spec);
  const image = await context.images.resolve(spec.image, options);
  const blueprint = imageBlueprint(context, { spec, sizes, image });
  return makeVm(context, blueprint, options, async (record, directory) => {
    const disks = await filesFromImage(context, join(directory, record.files), {
      image,
      machine: record.machine,
      storageBytes: sizes.storageBytes,
      dataDisks: spec.dataDisks ?? [],
    });
    const complete = { ...record, disks: [...disks] };
    if (image.seed) await writeSeed(context, { image, record: complete, spec }, options);
    if (spec.start === false) {
      await syncFilesIn(join(directory, record.files));
      return { ...complete, state: "created" };
    }
    const process = await startNew(context, complete, { ...options, start: "boot" });
    return running(context, complete, { process, from: "boot" });
  });
}

/** Makes a VM that goes on where the saved one was. The source directory must stay until this resolves. */
export async function cloneVm(
  context: QemuContext,
  request: { readonly spec: Omit<CloneSpec, "snapshot">; readonly source: CloneSource },
  options: CloneOptions,
): Promise<VmRecord> {
  const { spec, source } = request;
  const { description } = source;
  assertFits(description, context.host);
  const blueprint = cloneBlueprint(context, spec, source);
  return makeVm(context, blueprint, options, async (record, directory) => {
    const disks = await filesFromSnapshot(join(directory, record.files), {
      snapshotDirectory: source.directory,
      files: Object.keys(description.files),
      disks: description.disks,
      storageBytes: record.config.storageBytes,
      signal: options.signal,
    });
    const start = chooseStart(description);
    const machine = start === "boot" ? onThisHost(context, record.machine) : record.machine;
    const complete = { ...record, machine, disks: [...disks], firstBooted: true };
    if (start === "boot") await linkEmptyMemory(context, join(directory, record.files), machine.memoryBytes);
    const process = await startNew(context, complete, { ...options, start });
    return running(context, complete, { process, from: start === "boot" ? "boot" : "snapshot" });
  });
}

/** Its files survive a power cut when this resolves: its record, which names them, is written next. */
export async function startNew(
  context: QemuContext,
  record: VmRecord,
  options: StartOptions,
): Promise<ProcessIdentity> {
  const files = join(context.store.getDirectory(record.id), record.files);
  const [process] = await Promise.all([startMachine(context, record, options), syncFilesIn(files)]);
  return process;
}

export function chooseStart({ memory }: SnapshotDescription): "boot" | "deviceState" | "stream" {
  if (memory === "none") return "boot";
  return memory === "stream" ? "stream" : "deviceState";
}

// oxlint-disable-next-line max-params -- what to make, and the step that differs
export async function makeVm(
  context: QemuContext,
  blueprint: Blueprint,
  options: Abortable,
  finish: (record: VmRecord, directory: string) => Promise<VmRecord>,
): Promise<VmRecord> {
  const { store } = context;
  const made = await store.create(options);
  using _lock = made.lock;
  const draft = newRecord(context, made.id, blueprint);
  try {
    await store.write(draft, { sync: false });
    await store.claimName(blueprint.name, made.id, options);
    const { network, networkSpec: spec } = blueprint;
    const nics = network ? await prepareNics(network, draft, { spec, ...options }) : [];
    const uid = await allocateUid(context, options);
    const owned = { ...draft, nics: [...nics], ...(uid === undefined ? {} : { uid }) };
    await store.write(owned, { sync: false }); // the user is taken from here on
    const record = await finish(owned, made.directory);
    await store.write(record);
    await syncDirectory(store.layout.vms);
    await startMerges(context, record, options);
    return record;
  } catch (error) {
    await unmake(context, draft.id).catch((problem: unknown) => {
      context.log.warn(
        { vm: made.id, error: getErrorMessage(problem) },
        "half-made vm not removed; the next start will",
      );
    });
    throw error;
  }
}

/** Removes every trace of a VM, made or half made. The caller holds its lock. */
export async function unmake(context: QemuContext, id: string): Promise<void> {
  const { signal } = new AbortController(); // cleaning up is not given up half way
  const directory = context.store.getDirectory(id);
  await endEverything(id, directory);
  await removeCgroup(context.settings.cgroupParent, id);
  for (const network of context.networks.values()) await network.release(id, { signal });
  await context.store.remove(id, { signal });
}

function newRecord(context: QemuContext, id: string, blueprint: Blueprint): VmRecord {
  const now = context.now().toISOString();
  return {
    version: recordVersion,
    id,
    name: blueprint.name,
    state: "creating",
    config: { ...blueprint.config, labels: { ...blueprint.config.labels } },
    origin: blueprint.origin,
    machine: blueprint.machine,
    files: firstFiles,
    nics: [],
    disks: [],
    imageBlobIds: [...blueprint.imageBlobIds],
    snapshotIds: [],
    hasAgent: blueprint.hasAgent,
    guest: "unknown",
    identity: { hostname: blueprint.name, machineId: computeMachineId(id), instanceId: id },
    epoch: newId(),
    ...(blueprint.cpuPolicy ? { cpuPolicy: blueprint.cpuPolicy } : {}),
    firstBooted: false,
    createdAt: now,
    updatedAt: now,
  };
}

/** A cold boot takes the QEMU and the CPU that the host has now. The machine type stays: the guest knows it. */
export function onThisHost(context: QemuContext, machine: VmRecord["machine"]): VmRecord["machine"] {
  const { accelerator, cpuModel, cpuClass, version } = context.host;
  return { ...machine, accelerator, cpuModel, cpuClass, qemuVersion: version };
}

/** The record of a VM whose guest has just begun to run. */
export function running(
  context: QemuContext,
  record: VmRecord,
  {
    process,
    from,
  }: { readonly process: NonNullable<VmRecord["process"]>; readonly from: "boot" | "snapshot" },
): VmRecord {
  const now = context.now().toISOString();
  const {
    stoppedAt: _stopped,
    stopAskedAt: _asked,
    problem: _problem,
    bootResets: _resets,
    ...rest
  } = record;
  return {
    ...rest,
    state: "running",
    process,
    startedFrom: from,
    guest: record.hasAgent ? "booting" : "unknown",
    firstBooted: true,
    startedAt: now,
    updatedAt: now,
  };
}

function computeMachineId(id: string): string {
  return createHash("sha256").update(`machine-id ${id}`).digest("hex").slice(0, 32);
}

async function writeSeed(
  context: QemuContext,
  {
    image,
    record,
    spec,
  }: { readonly image: BootableImage; readonly record: VmRecord; readonly spec: RunSpec },
  options: Abortable,
): Promise<void> {
  const facts = {
    instanceId: record.identity.instanceId,
    hostname: record.identity.hostname,
    login: spec.login ?? {},
    nics: record.nics.map((plan) => plan.guest),
    dataDisks: record.disks.flatMap((disk) =>
      disk.role === "data" && disk.fsType !== undefined
        ? [
            {
              serial: disk.serial,
              fsType: disk.fsType,
              ...(disk.mountPoint === undefined ? {} : { mountPoint: disk.mountPoint }),
            },
          ]
        : [],
    ),
  };
  const path = join(context.store.getDirectory(record.id), record.files, machineFile.seed);
  try {
    await context.images.writeSeed(image, facts, { ...options, path });
  } catch (error) {
    throw new Fault("internal", `cannot write the seed disk: ${getErrorMessage(error)}`, { cause: error });
  }
}
