/**
 * The end of loading: of a running machine, whose disks are switched to their local files, and of one that stopped in the
 * middle, whose files are completed before anything uses them.
 */
import { rm } from "node:fs/promises";
import { join } from "node:path";
import {
  Fault,
  isAlive,
  isFault,
  pathExists,
  sleep,
  writeFileAtomically,
  type Abortable,
} from "@cocoon/core";
import type { QemuContext } from "../context.ts";
import { connectQmp } from "../qmp/qmp.ts";
import { vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import { openLoading } from "./load-machine.ts";
import { tryReadLoading, writeLoading } from "./loading-state.ts";
import { unmountFuse } from "./mount.ts";
import { requireLazy } from "./page-server-process.ts";
import { switchDisks } from "./switch-disks.ts";

const pollMs = 50;
const retryMs = 2_000;

/** Files that are not all here are never saved, linked or booted from. */
export function assertLoaded({ lazy, name }: VmRecord): void {
  if (lazy?.state === "loading")
    throw new Fault("unavailable", `the files of VM ${name} are still being loaded; try again`);
}

function isRunning({ process }: VmRecord): boolean {
  return process !== undefined && isAlive(process);
}

/** The record of a machine that does not run: its mount goes, and nothing is left of loading that has ended. */
export async function dropMount(context: QemuContext, record: VmRecord): Promise<VmRecord> {
  if (!record.lazy || isRunning(record)) return record;
  const directory = context.store.getDirectory(record.id);
  await unmountFuse(join(directory, vmFile.lazy));
  const complete = record.lazy.state === "local" || (await tryReadLoading(directory))?.state === "local";
  if (!complete) return record;
  const { lazy: _lazy, ...whole } = record;
  return whole;
}

/** Opens the gate for everything that is still missing. Survives a power cut: a machine that was used is not reset. */
export async function announceAnswered(vmDirectory: string): Promise<void> {
  const path = join(vmDirectory, vmFile.answered);
  if (!(await pathExists(path))) await writeFileAtomically(path, "", { mode: 0o600 });
}

/** Switches a running machine to its local files, when all are here. True when it is done. */
export async function finishLoading(context: QemuContext, id: string, options: Abortable): Promise<boolean> {
  const directory = context.store.getDirectory(id);
  if ((await tryReadLoading(directory))?.state !== "local") return false;
  using _lock = await context.store.lock(id, options);
  const record = await context.store.read(id);
  if (record.lazy?.state !== "loading" || !isRunning(record)) return true;
  using qmp = await connectQmp({ directory, socket: vmFile.qmp, signal: options.signal });
  await switchDisks(qmp, record, options);
  const updatedAt = context.now().toISOString();
  await context.store.write({ ...record, lazy: { ...record.lazy, state: "local" }, updatedAt });
  context.log.info({ vm: id }, "all files of the machine are local");
  return true;
}

/** Resolves when the VM's files are all here: at once, or after what is missing has come. */
export async function awaitLoaded(context: QemuContext, ref: string, options: Abortable): Promise<void> {
  const { id } = await context.store.find(ref);
  for (;;) {
    const record = await context.store.read(id);
    if (record.lazy?.state !== "loading") return;
    if (!isRunning(record)) return completeLoading(context, id, options);
    await announceAnswered(context.store.getDirectory(id));
    if (await finishLoading(context, id, options)) return;
    await sleep(pollMs, options);
    options.signal.throwIfAborted();
  }
}

/** Completes the files of a VM that stopped while they were loaded. Waits for the registry as long as it takes. */
export async function completeLoading(context: QemuContext, ref: string, options: Abortable): Promise<void> {
  const stored = await context.store.find(ref);
  if (stored.kind !== "record" || stored.record.lazy?.state !== "loading" || isRunning(stored.record)) return;
  const { record } = stored;
  const directory = context.store.getDirectory(record.id);
  if ((await tryReadLoading(directory))?.state !== "local") await loadAll(context, record, options);
  using _lock = await context.store.lock(record.id, options);
  const current = await context.store.read(record.id);
  const whole = await dropMount(context, current);
  if (whole !== current) await context.store.write(whole);
  await rm(join(directory, vmFile.answered), { force: true });
}

async function loadAll(context: QemuContext, record: VmRecord, options: Abortable): Promise<void> {
  const { registry, store } = requireLazy(context);
  if (!record.lazy) return;
  const { repository, digest, files: lazy } = record.lazy;
  const vmDirectory = context.store.getDirectory(record.id);
  const directory = join(vmDirectory, record.files);
  const config = { registry, store, repository, digest, lazy, directory, resumed: true };
  for (;;) {
    try {
      using loading = await openLoading(config, options);
      await loading.finish();
      return await writeLoading(vmDirectory, { state: "local", ...loading.content.counts });
    } catch (error) {
      options.signal.throwIfAborted();
      if (!isFault(error) || !error.traits.retry) throw error;
    }
    await sleep(retryMs, options);
  }
}
