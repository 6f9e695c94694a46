/**
 * Wakes a machine before its memory and disks are on this node. Where that is not possible, an event says why and the
 * snapshot is pulled whole, as always.
 */
import { annotation } from "@cocoon/contract";
import { Fault, getErrorMessage, isFault, type Abortable } from "@cocoon/core";
import type { HibernatedSnapshot } from "@cocoon/machine";
import type { CloneSpec, Vm } from "@cocoon/vm";
import { findLocalSnapshot } from "../node-snapshots.ts";
import type { PodMachine } from "../pod-machine.ts";
import { startLiveness } from "./readiness.ts";
import type { StepContext } from "./step-context.ts";

interface LazyRestore {
  readonly snapshot: HibernatedSnapshot;
  readonly machine: PodMachine;
  readonly spec: Omit<CloneSpec, "snapshot">;
}

/** Undefined: pull it whole. */
export async function tryRestoreLazily(
  context: StepContext,
  { snapshot, machine, spec }: LazyRestore,
  options: Abortable,
): Promise<Vm | undefined> {
  const { runtime, description, emit, log } = context;
  const { vmName, os } = machine.vm;
  // Windows does not tolerate memory that arrives late.
  if (!machine.lazyWake || os === "windows" || !runtime.cloneRemote) return undefined;
  const { whyNotRemote, can } = description;
  if (!can.cloneRemote && whyNotRemote === undefined) return undefined; // turned off
  const local = await findLocalSnapshot(runtime, vmName, options);
  if (local && (local.id === snapshot.snapshotId || local.description === snapshot.digest)) return undefined;
  try {
    if (whyNotRemote !== undefined) throw new Fault("notSupported", whyNotRemote);
    const { digest, snapshotId } = snapshot;
    const vm = await runtime.cloneRemote(
      { ...spec, remote: { repository: vmName, digest, snapshotId } },
      options,
    );
    log.info({ id: vm.id, digest }, "machine runs; its memory and disks follow");
    return vm;
  } catch (error) {
    if (options.signal.aborted) throw error;
    // A registry without an answer is no reason to do it the other way: that would get none either.
    if (isFault(error, "alreadyExists")) throw error;
    const expected = isFault(error, "notSupported");
    const message = `the snapshot is pulled whole before the machine runs: ${getErrorMessage(error)}`;
    emit({ type: expected ? "Normal" : "Warning", reason: "WakePullsAll", message });
    return undefined;
  }
}

/** Everything of the machine is on this node: it needs the registry no more. */
export async function announceLocal(
  context: StepContext,
  vm: Vm | undefined,
  options: Abortable,
): Promise<void> {
  const { tracked, log, emit } = context;
  if (vm) startLiveness(context, vm);
  await tracked.writer.write({ [annotation.loading]: null }, options);
  log.info({ id: vm?.id }, "machine is local");
  const message = "all of the machine's memory and disks are on this node";
  emit({ type: "Normal", reason: "MachineLocal", message });
}
