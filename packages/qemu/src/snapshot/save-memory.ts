/**
 * The two ways to save what a guest has in its memory and devices.
 *
 * By pages: QEMU writes the state of its devices; we write the pages that the guest changed over a copy of the file
 * that its memory was mapped from. Cheap: the pause grows with what changed, not with the guest.
 *
 * As a stream: QEMU sends everything as one migration stream. Needed where pages cannot be read (another user's
 * process, Yama) and for machines with a screen, whose memory is not part of the device state. Most of it is sent while
 * the guest still runs.
 */
import { createWriteStream } from "node:fs";
import { open, rename, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { Fault, orAborted, withDeadline, type Abortable } from "@cocoon/core";
import { copySparsely, emptyFile } from "../store/immutable-files.ts";
import { machineFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "../context.ts";
import {
  assertPagesReadable,
  copyPages,
  findMapping,
  privatePages,
  totalBytes,
  type MemoryRange,
} from "./pages.ts";
import type { QmpClient } from "../qmp/qmp.ts";
import { receiveOnce } from "@cocoon/vm/host";

export interface MemorySave extends AsyncDisposable {
  readonly form: "pages" | "stream";
  /** Saves what can be saved while the guest still runs, and freezes it. */
  freeze(qmp: QmpClient): Promise<void>;
  /** Saves the rest of the frozen guest; returns how many bytes were written. */
  finish(qmp: QmpClient): Promise<number>;
}

export interface SaveTarget extends Abortable {
  /** Directory that gets the files. */
  readonly directory: string;
}

const stateTimeoutMs = 60_000;
const stateBeingSaved = "device-state.saving";
/** While the guest is frozen nothing is given up half way. */
const never = new AbortController().signal;

/** Does everything that can be done beforehand. `forbidden` when the guest's pages cannot be read. */
export async function saveByPages(
  context: QemuContext,
  record: VmRecord,
  target: SaveTarget,
): Promise<MemorySave> {
  const vmDirectory = context.store.getDirectory(record.id);
  const { pid, ranges, base, isEmpty } = await findMemory(context, record);
  const memory = await copyBase({ base, isEmpty, bytes: record.machine.memoryBytes }, target);
  return {
    form: "pages",
    freeze: async (qmp) => void (await qmp.execute("stop", { signal: never })),
    finish: async (qmp) => {
      await saveDeviceState(qmp, vmDirectory, target.directory);
      const runs = await privatePages(pid, ranges);
      await copyPages({ pid, runs, target: memory, targetIsEmpty: isEmpty });
      return totalBytes(runs);
    },
    [Symbol.asyncDispose]: () => memory.close(),
  };
}

interface FoundMemory {
  readonly pid: number;
  readonly ranges: readonly MemoryRange[];
  /** The file that is mapped. */
  readonly base: string;
  /** It has no content: the guest was booted. */
  readonly isEmpty: boolean;
}

async function findMemory(context: QemuContext, record: VmRecord): Promise<FoundMemory> {
  const pid = requirePid(record);
  const base = join(context.store.getDirectory(record.id), record.files, machineFile.memory);
  const { ino } = await stat(base);
  await assertPagesReadable(pid);
  const ranges = await findMapping(pid, ino);
  const empty = await stat(await emptyFile(context.store.layout.shared, record.machine.memoryBytes));
  return { pid, ranges, base, isEmpty: ino === empty.ino };
}

async function copyBase(
  { base, isEmpty, bytes }: Pick<FoundMemory, "base" | "isEmpty"> & { readonly bytes: number },
  target: SaveTarget,
): Promise<FileHandle> {
  const path = join(target.directory, machineFile.memory);
  return isEmpty ? emptyMemory(path, bytes) : copiedMemory(base, path, target);
}

/** Bytes of the guest's memory that are not those of the file it is mapped from. `forbidden` when it cannot be read. */
export async function countPrivateBytes(context: QemuContext, record: VmRecord): Promise<number> {
  const { pid, ranges } = await findMemory(context, record);
  return totalBytes(await privatePages(pid, ranges));
}

/** The memory of a guest that runs on: each page as it is when it is read, so not one state of the guest. */
export async function copyLiveMemory(
  context: QemuContext,
  record: VmRecord,
  target: SaveTarget,
): Promise<void> {
  const found = await findMemory(context, record);
  await using memory = await copyBase({ ...found, bytes: record.machine.memoryBytes }, target);
  const runs = await privatePages(found.pid, found.ranges);
  await copyPages({ pid: found.pid, runs, target: memory, targetIsEmpty: found.isEmpty });
}

async function emptyMemory(path: string, bytes: number): Promise<FileHandle> {
  const file = await open(path, "wx", 0o600);
  await file.truncate(bytes);
  return file;
}

async function copiedMemory(base: string, path: string, options: Abortable): Promise<FileHandle> {
  await copySparsely(base, path, options);
  return open(path, "r+");
}

/** QEMU writes into its own directory, the only one that it can be sure to reach. */
async function saveDeviceState(qmp: QmpClient, vmDirectory: string, target: string): Promise<void> {
  await qmp.execute("xen-save-devices-state", {
    signal: never,
    timeoutMs: stateTimeoutMs,
    arguments: { filename: stateBeingSaved, live: false },
  });
  await rename(join(vmDirectory, stateBeingSaved), join(target, machineFile.deviceState));
}

const streamSocket = "migration.sock";
const streamTimeoutMs = 30 * 60_000;
const unlimitedBandwidth = 2 ** 40;
const downtimeMs = 100;

/** Sends the whole machine through a socket that we read. */
export async function saveAsStream(
  context: QemuContext,
  record: VmRecord,
  target: SaveTarget,
): Promise<MemorySave> {
  const vmDirectory = context.store.getDirectory(record.id);
  const path = join(target.directory, machineFile.stream);
  return {
    form: "stream",
    freeze: async (qmp) => {
      const signal = withDeadline(target.signal, streamTimeoutMs);
      const done = migrationEnd(qmp);
      await using incoming = await receiveOnce(
        vmDirectory,
        streamSocket,
        createWriteStream(path, { mode: 0o600 }),
      );
      await prepareMigration(qmp, { signal });
      await qmp.execute("migrate", { signal, arguments: { uri: `unix:${streamSocket}` } });
      try {
        await orAborted(done, { signal });
      } catch (error) {
        await qmp.execute("migrate_cancel", { signal: never }).catch(() => undefined); // it may be over already
        throw error;
      }
      await incoming.received;
    },
    finish: async () => (await stat(path)).size,
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
}

async function prepareMigration(qmp: QmpClient, { signal }: Abortable): Promise<void> {
  await qmp.execute("migrate-set-capabilities", {
    signal,
    arguments: { capabilities: [{ capability: "events", state: true }] },
  });
  await qmp.execute("migrate-set-parameters", {
    signal,
    arguments: { "max-bandwidth": unlimitedBandwidth, "downtime-limit": downtimeMs },
  });
}

function migrationEnd(qmp: QmpClient): Promise<void> {
  const end = Promise.withResolvers<void>();
  end.promise.catch(() => undefined); // the caller may have given up
  qmp.onEvent(({ event, data }) => {
    if (event !== "MIGRATION") return;
    if (data["status"] === "completed") end.resolve();
    if (data["status"] === "failed" || data["status"] === "cancelled")
      end.reject(new Fault("internal", `QEMU could not send the machine: ${data["status"]}`));
  });
  void qmp.closed.then(() => end.reject(new Fault("unavailable", "QEMU ended while it was being saved")));
  return end.promise;
}

function requirePid(record: VmRecord): number {
  if (!record.process) throw new Fault("conflict", `VM not running: ${record.name} has no process`);
  return record.process.pid;
}
