/** Start, stop, pause, resume, reset and remove: what the port promises, over one VM's lock and QMP. */
import { link, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { Fault, getErrorMessage, withDeadline, type Abortable } from "@cocoon/core";
import type { RemoveVmOptions, StopVmOptions } from "@cocoon/vm";
import { emptyFile } from "../store/immutable-files.ts";
import { newId } from "@cocoon/vm/engine";
import { withIntent } from "../store/intents.ts";
import { machineFile } from "../store/layout.ts";
import type { VmRecord } from "../store/vm-record.ts";
import type { QemuContext } from "../context.ts";
import { applyMerges } from "../disk/merge-layers.ts";
import { refreshNics } from "./attach-network.ts";
import { onThisHost, running, unmake } from "./create.ts";
import { look, operate, type LockedVm } from "./operate.ts";
import { awaitGone, killQemu } from "../process/process.ts";
import { assertLoaded, dropMount } from "../lazy/finish-loading.ts";
import { startMachine } from "../process/start-machine.ts";

export function startVm(context: QemuContext, ref: string, options: Abortable): Promise<VmRecord> {
  return operate(context, { ref, action: "start", signal: options.signal }, async (vm) => {
    if (!vm.mustAct) return vm.record;
    assertLoaded(vm.record);
    const merged = await withErrorState(vm, () => applyMerges(context, vm.record), options);
    const machine = onThisHost(context, merged.machine);
    const record = { ...merged, machine, epoch: newId() };
    return withIntent(vm.directory, { kind: "start" }, async () => {
      await forgetMemory(context, vm.directory, record);
      const { process, nics } = await withErrorState(
        { ...vm, record: merged },
        async () => {
          const connected = await refreshNics(context, record, options);
          const plugged = { ...record, nics: connected };
          return {
            nics: connected,
            process: await startMachine(context, plugged, { ...options, start: "boot" }),
          };
        },
        options,
      );
      return vm.write(running(context, { ...record, nics }, { process, from: "boot" }));
    });
  });
}

/** A clone's memory was mapped from its snapshot; a guest that boots begins with none. */
async function forgetMemory(context: QemuContext, directory: string, record: VmRecord): Promise<void> {
  const files = join(directory, record.files);
  const temporary = join(files, `${machineFile.memory}.new`);
  await rm(temporary, { force: true });
  await link(await emptyFile(context.store.layout.shared, record.machine.memoryBytes), temporary);
  await rename(temporary, join(files, machineFile.memory));
  for (const file of [machineFile.deviceState, machineFile.stream])
    await rm(join(files, file), { force: true });
}

/** A machine that cannot be started is in state `error` with the reason. */
async function withErrorState<T>(vm: LockedVm, work: () => Promise<T>, options: Abortable): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!options.signal.aborted)
      await vm.write({ ...vm.record, state: "error", problem: getErrorMessage(error) });
    throw error;
  }
}

const defaultStopMs = 30_000;

/** The lock is not held while the guest takes its time, so that a removal by force need not wait. */
export async function stopVm(context: QemuContext, ref: string, options: StopVmOptions): Promise<VmRecord> {
  const graceMs = options.force ? 0 : (options.timeoutMs ?? defaultStopMs);
  const requested = await operate(context, { ref, action: "stop", signal: options.signal }, (vm) =>
    askToStop(context, vm, { graceMs, signal: options.signal }),
  );
  if (!requested.process) return requested;
  await awaitGone(requested.process, { signal: withDeadline(options.signal, graceMs) });
  options.signal.throwIfAborted();
  return operate(context, { ref: requested.id, action: "stop", signal: options.signal }, (vm) =>
    endNow(context, vm),
  );
}

async function askToStop(
  context: QemuContext,
  vm: LockedVm,
  { graceMs, ...options }: Abortable & { readonly graceMs: number },
): Promise<VmRecord> {
  if (!vm.mustAct) return vm.record;
  const requested = await vm.write({ ...vm.record, stopAskedAt: context.now().toISOString() });
  if (graceMs <= 0) return endNow(context, { ...vm, record: requested });
  using qmp = await vm.connect(options);
  if (requested.state === "paused") await qmp.execute("cont", options); // a paused guest does not notice the button
  await qmp.execute("system_powerdown", options);
  return requested;
}

async function endNow(context: QemuContext, vm: LockedVm): Promise<VmRecord> {
  const { process } = vm.record;
  if (!process) return vm.record;
  await killQemu(process, vm.record.id, vm.directory);
  return vm.write(await dropMount(context, await look(context, vm.record)));
}

export function pauseVm(context: QemuContext, ref: string, options: Abortable): Promise<VmRecord> {
  return operate(context, { ref, action: "pause", signal: options.signal }, async (vm) => {
    if (!vm.mustAct) return vm.record;
    using qmp = await vm.connect(options);
    await qmp.execute("stop", options);
    return await vm.write({ ...vm.record, state: "paused" });
  });
}

/** QEMU gets the command in any case: a guest that a full disk paused could not be recorded as paused. */
export function resumeVm(context: QemuContext, ref: string, options: Abortable): Promise<VmRecord> {
  return operate(context, { ref, action: "resume", signal: options.signal }, async (vm) => {
    using qmp = await vm.connect(options);
    await qmp.execute("cont", options);
    if (!vm.mustAct) return vm.record;
    const { problem: _problem, ...record } = vm.record;
    return await vm.write({ ...record, state: "running" });
  });
}

export function resetVm(context: QemuContext, ref: string, options: Abortable): Promise<VmRecord> {
  return operate(context, { ref, action: "reset", signal: options.signal }, async (vm) => {
    using qmp = await vm.connect(options);
    // A reset while the virtual CPUs stand still in the firmware leaves QEMU 7.2 without a BIOS: the guest never boots.
    await qmp.execute("cont", options);
    await qmp.execute("system_reset", options);
    const guest = vm.record.hasAgent ? "booting" : "unknown";
    return await vm.write({ ...vm.record, state: "running", guest, epoch: newId(), startedFrom: "boot" });
  });
}

/** A guest that restarted by itself is booting again; it stays who it is. */
export function recordRestart(context: QemuContext, id: string): Promise<VmRecord> {
  const signal = AbortSignal.timeout(60_000);
  return operate(context, { ref: id, action: "exec", signal }, (vm) =>
    vm.write({ ...vm.record, guest: vm.record.hasAgent ? "booting" : "unknown" }),
  );
}

export const fullDiskProblem =
  "its disk cannot be written because the host's is full; it resumes once there is room";

/** QEMU paused the guest instead of reporting a disk error to it; `resume` makes it try again. */
export function recordFullDisk(context: QemuContext, id: string): Promise<VmRecord> {
  const signal = AbortSignal.timeout(60_000);
  return operate(context, { ref: id, action: "pause", signal }, (vm) =>
    vm.write({ ...vm.record, state: "paused", problem: fullDiskProblem }),
  );
}

export async function removeVm(context: QemuContext, ref: string, options: RemoveVmOptions): Promise<void> {
  const stored = await context.store.find(ref);
  if (stored.kind === "damaged") return removeDamaged(context, stored.id, options);
  const action = options.force ? "removeByForce" : "remove";
  await operate(
    context,
    { ref: stored.id, action, signal: options.signal },
    async ({ record, directory }) => {
      // Struck out together with the directory; when we die before, the next one goes through with it.
      await withIntent(directory, { kind: "remove" }, async () => {
        await unmake(context, record.id);
      });
    },
  );
}

/** Nothing is known about it but where it lies and what its process is called. */
async function removeDamaged(context: QemuContext, id: string, options: RemoveVmOptions): Promise<void> {
  if (!options.force)
    throw new Fault("conflict", `the state file of VM ${id} is damaged; it is removed only by force`);
  using _lock = await context.store.lock(id, options);
  await unmake(context, id);
}
