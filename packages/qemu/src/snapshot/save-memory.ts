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
import { Fault, orAborted, withDeadline, type Abortable, type ProcessIdentity } from "@cocoon/core";
import { copySparsely, emptyFile } from "../store/immutable-files.ts";
import { machineFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "../context.ts";
import { copyBack, copyPages } from "./copy-pages.ts";
import {
  assertPagesReadable,
  findMapping,
  privatePages,
  subtractRuns,
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

/** A copy of a running guest's memory, made a moment ago. */
export interface LiveMemory {
  readonly path: string;
  readonly process: ProcessIdentity;
  /** Pages that were the process's own then. */
  readonly runs: readonly MemoryRange[];
}

export interface PagesTarget extends SaveTarget {
  /** What is saved starts from it, where it is of the process that still runs. */
  readonly live?: LiveMemory | undefined;
}

/**
 * Does everything that can be done beforehand, writing it to disk included: what is saved is flushed while the guest may
 * still be frozen. `forbidden` when the guest's pages cannot be read.
 */
export async function saveByPages(
  context: QemuContext,
  record: VmRecord,
  target: PagesTarget,
): Promise<MemorySave> {
  const vmDirectory = context.store.getDirectory(record.id);
  const found = await findMemory(context, record);
  const live = target.live && isSame(target.live.process, record.process) ? target.live : undefined;
  const memory = live
    ? await takeLive(live, target)
    : await copyBase({ ...found, bytes: record.machine.memoryBytes }, target);
  if (!live) await memory.datasync();
  return {
    form: "pages",
    freeze: async (qmp) => void (await qmp.execute("stop", { signal: never })),
    finish: async (qmp) => {
      await saveDeviceState(qmp, vmDirectory, target.directory);
      const runs = await privatePages(found.pid, found.ranges);
      if (live) await writeChanges({ found, live, runs, memory });
      else
        await copyPages({ pid: found.pid, runs, target: memory, over: found.isEmpty ? "nothing" : "base" });
      return totalBytes(runs);
    },
    [Symbol.asyncDispose]: () => memory.close(),
  };
}

function isSame(one: ProcessIdentity, other: ProcessIdentity | undefined): boolean {
  return one.pid === other?.pid && one.startTicks === other.startTicks && one.bootId === other.bootId;
}

async function takeLive({ path }: LiveMemory, { directory }: SaveTarget): Promise<FileHandle> {
  const taken = join(directory, machineFile.memory);
  await rename(path, taken);
  return open(taken, "r+");
}

/** Brings the earlier copy to what the frozen guest has. */
async function writeChanges({
  found: { pid, base: basePath },
  live,
  runs,
  memory,
}: {
  readonly found: FoundMemory;
  readonly live: LiveMemory;
  readonly runs: readonly MemoryRange[];
  readonly memory: FileHandle;
}): Promise<void> {
  await copyPages({ pid, runs, target: memory, over: "copy" });
  const givenBack = subtractRuns(live.runs, runs);
  if (givenBack.length === 0) return;
  await using base = await open(basePath, "r");
  await copyBack(givenBack, { base, target: memory });
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
  const { pid } = requireProcess(record);
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
): Promise<LiveMemory> {
  const found = await findMemory(context, record);
  await using memory = await copyBase({ ...found, bytes: record.machine.memoryBytes }, target);
  const runs = await privatePages(found.pid, found.ranges);
  await copyPages({ pid: found.pid, runs, target: memory, over: found.isEmpty ? "nothing" : "base" });
  return { path: join(target.directory, machineFile.memory), process: requireProcess(record), runs };
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

function requireProcess(record: VmRecord): ProcessIdentity {
  if (!record.process) throw new Fault("conflict", `VM not running: ${record.name} has no process`);
  return record.process;
}
