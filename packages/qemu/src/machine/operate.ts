/**
 * How anything is done to one VM: find it, wait for its lock, read its record anew, recover what a dead process left
 * in the middle, see whether its process still lives, check the table of states, act.
 */
import { join } from "node:path";
import { isAlive, isFault, pathExists, type Abortable } from "@cocoon/core";
import { readIntent } from "../store/intents.ts";
import { vmFile } from "../store/layout.ts";
import { toVm, type VmRecord } from "../store/vm-record.ts";
import type { StoredVm } from "../store/vm-store.ts";
import { assertPermitted, liveStates, type Vm, type VmAction, type VmLoading } from "@cocoon/vm";
import type { QemuContext } from "../context.ts";
import { tryReadLoading } from "../lazy/loading-state.ts";
import { recoverInterrupted } from "./recover-interrupted.ts";
import { dropMount } from "../lazy/finish-loading.ts";
import { explainExit } from "../process/process.ts";
import { connectQmp, type QmpClient } from "../qmp/qmp.ts";

export interface LockedVm {
  readonly record: VmRecord;
  readonly directory: string;
  /** False when the action is already done, by the table of states. */
  readonly mustAct: boolean;
  write(record: VmRecord): Promise<VmRecord>;
  /** QEMU's command socket; only who holds the lock uses it. */
  connect(options: Abortable): Promise<QmpClient>;
}

/** Does something to the VM under its lock. `conflict` when the action is not legal in its state. */
export async function operate<T>(
  context: QemuContext,
  target: Abortable & { readonly ref: string; readonly action: VmAction },
  work: (vm: LockedVm) => Promise<T>,
): Promise<T> {
  const { id } = await context.store.find(target.ref);
  using _lock = await context.store.lock(id, target);
  const record = await settle(context, await context.store.read(id));
  const mustAct = assertPermitted(target.action, record);
  return await work(locked(context, record, mustAct));
}

function locked(context: QemuContext, record: VmRecord, mustAct: boolean): LockedVm {
  const directory = context.store.getDirectory(record.id);
  return {
    record,
    directory,
    mustAct,
    write: async (changed) => {
      const written = { ...changed, updatedAt: context.now().toISOString() };
      await context.store.write(written);
      return written;
    },
    connect: (options) => connectQmp({ directory, socket: vmFile.qmp, signal: options.signal }),
  };
}

/** Brings the record in line with what is: undoes or ends what was left half done, notes a process that is gone. */
export async function settle(
  context: QemuContext,
  record: VmRecord,
  evidence: { readonly shutdownReason?: string } = {},
): Promise<VmRecord> {
  const directory = context.store.getDirectory(record.id);
  const intent = await readIntent(directory);
  const whole = intent ? await recoverInterrupted(context, record, intent) : record;
  const seen = await dropMount(context, await look(context, whole, evidence));
  if (seen !== whole) await context.store.write(seen);
  return seen;
}

/** The record as it should read now: a live state without a living process is `stopped`. Writes nothing. */
export async function look(
  context: QemuContext,
  record: VmRecord,
  evidence: { readonly shutdownReason?: string } = {},
): Promise<VmRecord> {
  const { process, ...rest } = record;
  if (!liveStates.has(record.state) || (process && isAlive(process))) return record;
  const now = context.now().toISOString();
  const exit = process
    ? await explainExit(context.store.getDirectory(record.id), process, {
        ...evidence,
        asked: record.stopAskedAt !== undefined,
      })
    : { reason: "lost" as const };
  const { stopAskedAt: _asked, ...kept } = rest;
  return {
    ...kept,
    state: "stopped",
    guest: "unknown",
    stoppedAt: now,
    updatedAt: now,
    lastExit: { ...exit, at: now },
  };
}

/** The VM as the port shows it, true as of now, without waiting for its lock. */
export async function show(
  context: QemuContext,
  stored: StoredVm,
  evidence: { readonly shutdownReason?: string } = {},
): Promise<Vm> {
  const directory = context.store.getDirectory(stored.id);
  if (stored.kind === "damaged") return damagedVm(stored);
  const record = await look(context, stored.record, evidence);
  const vm = toVm(record, directory);
  const loading = record.lazy?.state === "loading" ? { loading: await readProgress(record, directory) } : {};
  return { ...vm, ...loading, snapshotIds: await context.snapshots.existing(vm.snapshotIds) };
}

async function readProgress({ hasAgent }: VmRecord, directory: string): Promise<VmLoading> {
  const { doneBytes = 0, totalBytes = 0, problem = "" } = (await tryReadLoading(directory)) ?? {};
  const hasAnswered = !hasAgent || (await pathExists(join(directory, vmFile.answered)));
  return { doneBytes, totalBytes, hasAnswered, ...(problem === "" ? {} : { problem }) };
}

function damagedVm(stored: Extract<StoredVm, { readonly kind: "damaged" }>): Vm {
  const never = new Date(0).toISOString();
  return {
    id: stored.id,
    name: stored.name,
    state: "error",
    hypervisor: "qemu",
    config: { cpus: 0, memoryBytes: 0, storageBytes: 0, os: "linux", labels: {} },
    origin: { kind: "image", image: "" },
    nics: [],
    disks: [],
    snapshotIds: [],
    guest: "unknown",
    epoch: "",
    firstBooted: false,
    createdAt: never,
    updatedAt: never,
    problem: `its state file is damaged (${stored.why}); the state before is kept beside it as ${vmFile.previousRecord}`,
  };
}

/** Notes what became of the VM, once no other process works on it. Undefined when it is gone, or we gave up. */
export async function settleLater(
  context: QemuContext,
  id: string,
  options: Abortable & { readonly shutdownReason?: string },
): Promise<VmRecord | undefined> {
  try {
    using _lock = await context.store.lock(id, options);
    return await settle(context, await context.store.read(id), options);
  } catch (error) {
    if (isFault(error, "notFound") || options.signal.aborted) return undefined;
    throw error;
  }
}
