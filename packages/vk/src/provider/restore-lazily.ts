/**
 * Wakes or clones a machine before its memory and disks are on this node. Where that is not possible, an event says why and
 * the snapshot is pulled whole, as always.
 */
import { annotation, isWindowsPod } from "@cocoon/contract";
import { Fault, getErrorMessage, isFault, type Abortable } from "@cocoon/core";
import type { HibernatedSnapshot, SnapshotInfo } from "@cocoon/machine";
import type { CloneOptions, CloneSpec, RemoteCloneSpec, Vm } from "@cocoon/vm";
import { readWantedSize } from "../machine-size.ts";
import { findLocalSnapshot } from "../node-snapshots.ts";
import type { PodMachine } from "../pod-machine.ts";
import { buildCommonSpec } from "./boot-image.ts";
import { startLiveness } from "./readiness.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";

interface LazyRestore {
  readonly snapshot: HibernatedSnapshot;
  readonly machine: PodMachine;
  readonly spec: Omit<CloneSpec, "snapshot">;
}

/** Undefined: pull it whole. */
export async function tryRestoreLazily(
  context: StepContext,
  { snapshot: { digest, snapshotId }, machine, spec }: LazyRestore,
  options: CloneOptions,
): Promise<Vm | undefined> {
  const { vmName } = machine.vm;
  if (!isLazy(context, machine)) return undefined;
  if (await isLocal(context, { name: vmName, digest, snapshotId }, options)) return undefined;
  const remote = { repository: vmName, digest, snapshotId };
  return cloneRemote(context, { ...spec, remote }, options);
}

interface LazyClone {
  /** What the image names in the registry. */
  readonly found: SnapshotInfo;
  readonly repository: string;
  /** Its name on the node. */
  readonly name: string;
  readonly machine: PodMachine;
}

/**
 * The first clone of a base that is not on this node. Those that follow share one whole pull, mostly of content that is here by
 * then: afterwards clones of this base are instant. Undefined: pull it whole.
 */
export async function tryCloneLazily(
  context: StepContext,
  { found: { digest, snapshotId }, repository, name, machine }: LazyClone,
  options: Abortable,
): Promise<Vm | undefined> {
  if (!isLazy(context, machine)) return undefined;
  if (await isLocal(context, { name, digest, snapshotId }, options)) return undefined;
  if (!requireSnapshots(context).isFirstUse(digest)) return undefined;
  const { tracked, description } = context;
  const { storageBytes } = readWantedSize(tracked.writer.pod, description);
  const spec = {
    ...buildCommonSpec(context, machine),
    ...(storageBytes === undefined ? {} : { storageBytes }),
    remote: { repository, digest, snapshotId },
  };
  return cloneRemote(context, spec, options);
}

/** Asked for, and not turned off on this node. */
function isLazy({ description, runtime, tracked }: StepContext, machine: PodMachine): boolean {
  const { whyNotRemote, can } = description;
  // Windows does not tolerate memory that arrives late.
  if (!machine.lazyWake || isWindowsPod(tracked.writer.pod) || !runtime.cloneRemote) return false;
  return can.cloneRemote === true || whyNotRemote !== undefined;
}

interface Named {
  readonly name: string;
  readonly digest: string;
  readonly snapshotId: string;
}

async function isLocal(
  { runtime }: StepContext,
  { name, digest, snapshotId }: Named,
  options: Abortable,
): Promise<boolean> {
  const local = await findLocalSnapshot(runtime, name, options);
  return local !== undefined && (local.id === snapshotId || local.description === digest);
}

async function cloneRemote(
  { runtime, description, emit, log }: StepContext,
  spec: RemoteCloneSpec,
  options: CloneOptions,
): Promise<Vm | undefined> {
  try {
    const { whyNotRemote } = description;
    if (whyNotRemote !== undefined) throw new Fault("notSupported", whyNotRemote);
    const vm = await runtime.cloneRemote?.(spec, options);
    if (vm) log.info({ id: vm.id, digest: spec.remote.digest }, "machine runs; its memory and disks follow");
    return vm;
  } catch (error) {
    if (options.signal.aborted) throw error;
    // A registry without an answer is no reason to do it the other way: that would get none either.
    if (isFault(error, "alreadyExists")) throw error;
    // The last check refused: the other way would be refused as well.
    if (isFault(error, "conflict")) throw error;
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
  // With the state, whose message said how far it was.
  await tracked.writer.announce({ state: "ready", more: { [annotation.loading]: null } }, options);
  log.info({ id: vm?.id }, "machine is local");
  const message = "all of the machine's memory and disks are on this node";
  emit({ type: "Normal", reason: "MachineLocal", message });
}
