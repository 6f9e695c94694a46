/** Starts the QEMU of a VM whose files are in place and lets the guest run: from its firmware, or from a saved state. */
import { open } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  messageOf,
  orAborted,
  withDeadline,
  type Abortable,
  type ProcessIdentity,
} from "@cocoon/core";
import { machineFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { diskNode, qemuArguments, type ArgumentsInput } from "./arguments.ts";
import { placeInCgroup } from "./cgroup.ts";
import type { QemuContext } from "./context.ts";
import { handOver } from "./ownership.ts";
import { awaitQmp, endEverything, killQemu, lastWords, launchQemu } from "./process.ts";
import type { QmpClient } from "./qmp.ts";

export interface StartOptions extends Abortable {
  /** At its firmware, or from a saved state of that form. */
  readonly start: "boot" | "deviceState" | "stream";
  /** Leave the guest frozen where it is. */
  readonly paused?: boolean;
}

const loadTimeoutMs = 120_000;

/** Resolves when the guest's CPU runs. On failure nothing of it is left running. */
export async function startMachine(
  context: QemuContext,
  record: VmRecord,
  options: StartOptions,
): Promise<ProcessIdentity> {
  const directory = context.store.directoryOf(record.id);
  await handOver(context, record);
  const { start } = options;
  const state = start === "boot" ? undefined : join(directory, record.files, stateFile(start));
  const process = await launchQemu({
    binary: context.host.binary,
    directory,
    arguments: argumentsOf(record, state === undefined ? "boot" : await kindOfState(state)),
    ...(state === undefined ? {} : { inherit: state }),
    ...(context.settings.runAs ? { runAs: context.settings.runAs } : {}),
  });
  try {
    using qmp = await awaitQmp(directory, process, options);
    await placeInCgroup(
      {
        parent: context.settings.cgroupParent,
        vmId: record.id,
        pid: process.pid,
        cpus: record.machine.cpus,
        memoryBytes: record.machine.memoryBytes,
        accelerator: record.machine.accelerator,
        policy: record.cpuPolicy ?? {},
      },
      context.log,
    );
    if (options.start !== "boot") await loadState(qmp, record, options);
    if (!options.paused) await qmp.execute("cont", options);
    return process;
  } catch (error) {
    await killQemu(process, record.id);
    await endEverything(record.id, directory);
    throw options.signal.aborted ? error : asStartFault(error, directory);
  }
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
async function kindOfState(path: string): Promise<"named" | "nameless"> {
  await using file = await open(path, "r");
  const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, firstSection.at);
  return bytesRead === 1 && buffer[0] === firstSection.configuration ? "named" : "nameless";
}

function argumentsOf(record: VmRecord, start: ArgumentsInput["start"]): readonly string[] {
  return qemuArguments({
    id: record.id,
    files: record.files,
    machine: record.machine,
    disks: record.disks,
    nics: record.nics.map(({ nic, netdev }) => ({ mac: nic.mac, netdev, queueSize: nic.queueSize })),
    start,
  });
}

/** Loads the saved state from the inherited descriptor, and tells the guest about disks that have grown. */
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
    `${messageOf(error)}: ${lastWords(directory)}`,
    {
      cause: error,
    },
  );
}
