/** Starts the QEMU of a VM whose files are in place and lets the guest run: from its firmware, or from a saved state. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  getErrorMessage,
  orAborted,
  withDeadline,
  type Abortable,
  type ProcessIdentity,
} from "@cocoon/core";
import type { CloneOptions } from "@cocoon/vm";
import { machineFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { checkChains } from "../disk/disk-chain.ts";
import { diskNode, qemuArguments, type ArgumentsInput } from "./arguments.ts";
import { placeInCgroup } from "./cgroup.ts";
import type { QemuContext } from "../context.ts";
import { ensureLoopbackGuard } from "./loopback-guard.ts";
import { findOwner, handOver } from "./jail.ts";
import { findJail, findNamespaceCommand, listNetdevs, type Jail } from "./namespaces.ts";
import { awaitQmp, endEverything, killQemu, readLastLogLines, launchQemu } from "./process.ts";
import type { QmpClient } from "../qmp/qmp.ts";

export interface StartOptions extends CloneOptions {
  /** At its firmware, or from a saved state of that form. */
  readonly start: "boot" | "deviceState" | "stream";
  /** Leave the guest frozen where it is. */
  readonly paused?: boolean;
  /** Descriptor of the mount that its files are read through. */
  readonly mount?: number;
}

const loadTimeoutMs = 120_000;

/** Resolves when the guest's CPU runs. On failure nothing of it is left running. */
export async function startMachine(
  context: QemuContext,
  record: VmRecord,
  options: StartOptions,
): Promise<ProcessIdentity> {
  const directory = context.store.getDirectory(record.id);
  await assertChains(join(directory, record.files), record);
  await handOver(context, record);
  const preload = await findGuard(context, record, options);
  const owner = findOwner(context, record);
  const files = preload === undefined ? [] : [preload];
  const jail = owner && (await findJail(context, { record, owner, files }, options));
  const prefix = jail ? jail.command : await findNamespaceCommand(record, owner !== undefined);
  const { start } = options;
  const state = start === "boot" ? undefined : join(directory, record.files, stateFile(start));
  const process = await launchQemu({
    binary: context.host.binary,
    directory,
    arguments: buildArguments(record, state === undefined ? "boot" : await readStateKind(state), jail),
    ...listDescriptors(state, options),
    ...(preload === undefined ? {} : { preload }),
    ...(owner && !jail ? { runAs: owner } : {}),
    prefix,
  });
  const lastCheck = openLastCheck(options);
  try {
    using qmp = await awaitQmp(directory, process, options);
    await limitResources(context, record, process);
    if (options.start !== "boot") await loadState(qmp, record, options);
    await lastCheck.pass();
    if (!options.paused) await qmp.execute("cont", options);
    return process;
  } catch (error) {
    await killQemu(process, record.id, directory);
    await endEverything(record.id, directory);
    throw options.signal.aborted || lastCheck.refusal === error ? error : asStartFault(error, directory);
  }
}

async function limitResources(
  { settings, log }: QemuContext,
  { id, machine, cpuPolicy = {} }: VmRecord,
  { pid }: ProcessIdentity,
): Promise<void> {
  const { cpus, memoryBytes, accelerator } = machine;
  const limits = { cpus, memoryBytes, accelerator, policy: cpuPolicy };
  await placeInCgroup({ parent: settings.cgroupParent, vmId: id, pid, ...limits }, log);
}

interface LastCheck {
  /** What the caller's own check threw: it says nothing about QEMU. */
  refusal?: unknown;
  pass(): Promise<void>;
}

function openLastCheck({ beforeRun, signal }: StartOptions): LastCheck {
  const check: LastCheck = {
    pass: async () => {
      try {
        await beforeRun?.({ signal });
      } catch (error) {
        check.refusal = error;
        throw error;
      }
    },
  };
  return check;
}

function listDescriptors(
  state: string | undefined,
  { mount }: StartOptions,
): { readonly inherit?: string; readonly keep?: number } {
  const kept = mount === undefined ? {} : { keep: mount };
  return state === undefined ? kept : { ...kept, inherit: state };
}

/** Guests on the user network use the host's own connections; all others have addresses of their own. */
async function findGuard(
  { settings, store }: QemuContext,
  { nics }: VmRecord,
  options: Abortable,
): Promise<string | undefined> {
  if (settings.allowHostLoopback || !nics.some(({ nic }) => nic.backend === "user")) return undefined;
  return ensureLoopbackGuard(store.layout.shared, options);
}

/** QEMU would open whatever the files' headers name. */
async function assertChains(files: string, { disks }: VmRecord): Promise<void> {
  const { bypassed } = await checkChains(files, disks);
  if (bypassed.length > 0)
    throw new Fault(
      "preconditionFailed",
      `layers were merged and the record does not say so: ${bypassed[0]}`,
    );
}

function stateFile(start: "deviceState" | "stream"): string {
  return start === "stream" ? machineFile.stream : machineFile.deviceState;
}

/** After the magic and the version comes, if at all, the section that names the machine. */
const firstSection = { at: 8, configuration: 0x07 };

/**
 * A device state that was saved on its own is nameless. So is the stream of a machine that was itself started from one:
 * QEMU leaves the section out for as long as it lives.
 */
async function readStateKind(path: string): Promise<"named" | "nameless"> {
  await using file = await open(path, "r");
  const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, firstSection.at);
  return bytesRead === 1 && buffer[0] === firstSection.configuration ? "named" : "nameless";
}

function buildArguments(
  record: VmRecord,
  start: ArgumentsInput["start"],
  jail: Jail | undefined,
): readonly string[] {
  const netdevs = listNetdevs(record, jail);
  return qemuArguments({
    id: record.id,
    files: record.files,
    machine: record.machine,
    disks: record.disks,
    ...(record.lazy ? { mounted: record.lazy.files } : {}),
    nics: record.nics.map(({ nic: { mac, queueSize }, netdev }, index) => ({
      mac,
      netdev: netdevs[index] ?? netdev,
      queueSize,
    })),
    start,
  });
}

/** Loads the saved state from the inherited descriptor, and resizes disks that have grown. */
async function loadState(qmp: QmpClient, record: VmRecord, options: StartOptions): Promise<void> {
  const loaded = Promise.withResolvers<void>();
  loaded.promise.catch(() => undefined); // the connection may fail first
  const stop = qmp.onEvent(({ event, data }) => {
    if (event !== "MIGRATION") return;
    if (data["status"] === "completed") loaded.resolve();
    if (data["status"] === "failed") loaded.reject(refused());
  });
  try {
    await qmp.execute("migrate-set-capabilities", {
      signal: options.signal,
      arguments: { capabilities: [{ capability: "events", state: true }] },
    });
    await qmp.execute("migrate-incoming", { signal: options.signal, arguments: { uri: "fd:3" } });
    void qmp.closed.then(() => loaded.reject(refused()));
    await orAborted(loaded.promise, { signal: withDeadline(options.signal, loadTimeoutMs) });
  } finally {
    stop();
  }
  await growDisks(qmp, record, options);
}

async function growDisks(qmp: QmpClient, record: VmRecord, { signal }: Abortable): Promise<void> {
  for (const [index, disk] of record.disks.entries()) {
    if (disk.readOnly) continue;
    await qmp.execute("block_resize", {
      signal,
      arguments: { "node-name": diskNode(index, disk), size: disk.virtualBytes },
    });
  }
}

function refused(): Fault {
  return new Fault("preconditionFailed", "QEMU could not load the saved state");
}

function asStartFault(error: unknown, directory: string): Fault {
  if (error instanceof Fault && error.code !== "unavailable" && error.code !== "preconditionFailed")
    return error;
  const code = error instanceof Fault ? error.code : "internal";
  return new Fault(
    code === "unavailable" ? "internal" : code,
    `${getErrorMessage(error)}: ${readLastLogLines(directory)}`,
    {
      cause: error,
    },
  );
}
