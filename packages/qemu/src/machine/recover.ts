/**
 * Brings a store in order that a process may have left in the middle of something. Everything here is repeatable: it
 * may die as well.
 *
 * At open: VMs still `creating` that no process holds are removed; every VM with an intent is made whole; recorded
 * processes are observed at again (pid, start time, and that QEMU answers under the VM's id); strays are ended; networks
 * forget VMs that are gone; work and trash of the dead are removed.
 */
import { Fault, isFault, lockFile, getErrorMessage, type Abortable } from "@cocoon/core";
import { liveStates } from "@cocoon/vm";
import { vmFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { StoredVm } from "../store/vm-store.ts";
import { applyMerges, finishVmMerges } from "../disk/merge-layers.ts";
import { unmake } from "./create.ts";
import type { QemuContext } from "../context.ts";
import { settle } from "./operate.ts";
import { connectQmp } from "../qmp/qmp.ts";

const recoveryMs = 30_000;
/** A QEMU that waits for content does not answer before the content is here; others are not to wait for it. */
const loadingMs = 2_000;

/**
 * Whether the recorded process is what it should be: a QEMU that answers under the VM's id. `unavailable` or `timeout`
 * when it lives but does not answer, which is no reason to forget it.
 */
async function queryQemu(
  context: QemuContext,
  record: VmRecord,
  options: Abortable & { readonly deadlineMs: number },
): Promise<"running" | "paused"> {
  const directory = context.store.getDirectory(record.id);
  using qmp = await connectQmp({
    directory,
    socket: vmFile.qmp,
    signal: options.signal,
    greetingMs: options.deadlineMs,
  });
  const { name } = await qmp.execute("query-name", options);
  if (name !== record.id)
    throw new Fault("conflict", `another QEMU (${name ?? "unnamed"}) answers in ${directory}`);
  const { running } = await qmp.execute("query-status", options);
  return running ? "running" : "paused";
}

/** Brings the whole store in order; done by the process that opens it first, while others wait. */
export async function recoverAll(context: QemuContext, options: Abortable): Promise<void> {
  const { store, snapshots, log } = context;
  using _lock = await lockFile(store.layout.openLock, options);
  const left = [...(await store.emptyTrash()), ...(await snapshots.sweep()), ...(await store.sweepNames())];
  if (left.length > 0) log.info({ count: left.length }, "removed what dead processes left");
  await store.restoreNames(options);
  for (const vm of await store.list()) await recoverVm(context, vm);
  for (const id of await store.withoutRecord()) await recoverWithoutRecord(context, id);
  await releaseUnusedAddresses(context, options);
}

async function releaseUnusedAddresses(context: QemuContext, options: Abortable): Promise<void> {
  const listIds = async () => new Set((await context.store.list()).map((vm) => vm.id));
  for (const network of context.networks.values()) await network.reconcile(listIds, options);
}

/** A VM that another process works on is left to that process. */
async function recoverVm(context: QemuContext, vm: StoredVm): Promise<void> {
  using lock = context.store.tryLock(vm.id);
  if (!lock || vm.kind === "damaged") return;
  try {
    const record = await context.store.read(vm.id);
    if (record.state === "creating") await unmake(context, vm.id);
    else await adopt(context, await settle(context, record));
  } catch (error) {
    if (isFault(error, "notFound")) return;
    context.log.warn({ vm: vm.id, error: getErrorMessage(error) }, "vm could not be brought in order");
  }
}

/** Half made, before its first record: a directory and a lock. */
async function recoverWithoutRecord(context: QemuContext, id: string): Promise<void> {
  using lock = context.store.tryLock(id);
  if (lock) await unmake(context, id);
}

/** The name and state of a live QEMU are read; one that does not answer is kept as it was recorded. */
async function adopt(context: QemuContext, record: VmRecord): Promise<void> {
  if (!liveStates.has(record.state)) return checkDisks(context, record);
  try {
    const deadlineMs = record.lazy?.state === "loading" ? loadingMs : recoveryMs;
    const state = await queryQemu(context, record, { signal: AbortSignal.timeout(deadlineMs), deadlineMs });
    if (state !== record.state) await context.store.write({ ...record, state });
    await finishVmMerges(context, record.id, { signal: AbortSignal.timeout(recoveryMs) });
  } catch (error) {
    context.log.warn(
      { vm: record.id, error: getErrorMessage(error) },
      "vm lives but its qemu does not answer",
    );
  }
}

/** A machine whose disks differ from its record is in state `error` before it is started. */
async function checkDisks(context: QemuContext, record: VmRecord): Promise<void> {
  try {
    await applyMerges(context, record);
  } catch (error) {
    if (!isFault(error, "preconditionFailed") || record.state === "error") throw error;
    await context.store.write({ ...record, state: "error", problem: getErrorMessage(error) });
  }
}
