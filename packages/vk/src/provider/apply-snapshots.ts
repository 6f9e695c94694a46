/** Steps that save, push, seal, drop and remove: the ones that decide where a machine's only copy is. */
import { anchorTag, hibernateTag } from "@cocoon/contract";
import { isFault, getErrorMessage, type Abortable } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { dropLocalSnapshot, findLocalSnapshot } from "../node-snapshots.ts";
import { readPodMachine } from "../pod-machine.ts";
import { findVm } from "./observe.ts";
import { showProgress } from "./show-progress.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";
import type { StepOf } from "./step.ts";
import { vmLabel } from "./vm-labels.ts";

/**
 * What is saved is exactly where the VM is: nothing it does afterwards can be lost. An engine that cannot leave a VM paused
 * lets it continue until it is removed; what it does in these seconds is lost.
 */
export async function save(
  context: StepContext,
  { vmId, disksOnly }: StepOf<"save">,
  options: Abortable,
): Promise<void> {
  const { metrics, runtime, canSavePaused, tracked, log } = context;
  const { vmName } = readPodMachine(tracked.writer.pod).vm;
  const stopTimer = metrics.snapshot_save_duration_seconds.startTimer();
  try {
    const report = await runtime.snapshots.save(vmId, {
      name: vmName,
      ...(disksOnly ? { disksOnly } : canSavePaused ? { resume: false } : {}),
      ...options,
    });
    tracked.saved.id = report.snapshot.id;
    const { pausedMs, dirtyBytes } = report;
    tracked.trace.note({ "vm.paused_ms": Math.round(pausedMs), "vm.dirty_bytes": dirtyBytes });
    metrics.snapshot_save_total.inc({ result: "ok" });
    stopTimer();
    log.info({ snapshot: report.snapshot.id, bytes: report.snapshot.sizeBytes }, "machine saved");
  } catch (error) {
    metrics.snapshot_save_total.inc({ result: "failed" });
    throw error;
  }
}

export async function push(
  context: StepContext,
  tag: string,
  { record, signal }: Abortable & { readonly record: Vm | undefined },
): Promise<void> {
  const { tracked, log, runtime, emit } = context;
  const machine = readPodMachine(tracked.writer.pod);
  const { vmName, image: baseImage } = machine.vm;
  const local = await findLocalSnapshot(runtime, vmName, { signal });
  // From here on the registry may have a snapshot of this VM: should it continue in place, that one is dropped.
  if (tag === hibernateTag) tracked.finished = "";
  const started = performance.now();
  await using progress = showProgress(context, "hibernating", { signal });
  const report = await requireSnapshots(context).push({
    vmName,
    namespace: machine.namespace,
    tag,
    baseImage,
    restoredFrom: record ? getRestoredFrom(record, machine) : "",
    vmId: local?.vmId ?? "",
    ...(tag === hibernateTag ? { onProgress: progress.onProgress } : {}),
    signal,
  });
  const { digest, bytesSent, bytesReused } = report;
  tracked.trace.note({ "snapshot.sent_bytes": bytesSent, "snapshot.reused_bytes": bytesReused });
  const seconds = Math.round(performance.now() - started) / 1000;
  log.info({ tag, digest, bytes: bytesSent, reusedBytes: bytesReused, seconds }, "snapshot pushed");
  const [sent, reused] = [bytesSent, bytesReused].map((bytes) => (bytes / mebibyte).toFixed(1));
  const message = `snapshot ${tag}: ${sent} MiB sent, ${reused} MiB were there already, in ${seconds.toFixed(1)} s`;
  emit({ type: "Normal", reason: "SnapshotPushed", message });
}

const mebibyte = 1024 * 1024;

/**
 * Sends what the machine has while it runs on. What is saved afterwards, paused, is compared with it by content: chunks that
 * are still the same are not sent again. A registry that does not answer stops the hibernation here, before the pause.
 */
export async function pushAhead(
  context: StepContext,
  { record, signal }: Abortable & { readonly record: Vm | undefined },
): Promise<void> {
  const { tracked, log } = context;
  const machine = readPodMachine(tracked.writer.pod);
  const { vmName, image: baseImage } = machine.vm;
  const started = performance.now();
  try {
    await using progress = showProgress(context, "hibernating", { signal });
    const report = await requireSnapshots(context).pushAhead({
      vmName,
      namespace: machine.namespace,
      tag: anchorTag,
      baseImage,
      restoredFrom: record ? getRestoredFrom(record, machine) : "",
      vmId: record?.id ?? "",
      onProgress: progress.onProgress,
      signal,
    });
    const seconds = Math.round(performance.now() - started) / 1000;
    tracked.trace.note({ "snapshot.sent_bytes": report?.bytesSent ?? 0 });
    if (report) log.info({ bytes: report.bytesSent, seconds }, "content sent while the machine runs");
  } catch (error) {
    if (signal.aborted || (isFault(error) && error.traits.retry)) throw error;
    log.warn(
      { error: getErrorMessage(error) },
      "nothing was sent in advance; the machine is paused for all of it",
    );
  }
  tracked.pushedAhead = true;
}

/** The digest that a VM was restored from; "" when it was not, or the engine keeps no labels and the pod does not know. */
function getRestoredFrom(
  vm: Vm,
  machine: { readonly runtime: { readonly vmId: string }; readonly restoredDigest: string },
): string {
  const recorded = machine.runtime.vmId === vm.id ? machine.restoredDigest : "";
  return vm.config.labels[vmLabel.restoredFrom] ?? recorded;
}

/** The push failed: the machine is not kept paused until the registry is back. The next attempt saves anew. */
export async function unpause(context: StepContext, cause: unknown, options: Abortable): Promise<void> {
  const { runtime, tracked, log } = context;
  const { vmName } = readPodMachine(tracked.writer.pod).vm;
  const vm = await findVm(runtime, vmName, options);
  if (!vm) return;
  await dropLocalSnapshot(runtime, vmName, options);
  tracked.saved.id = undefined;
  tracked.pushedAhead = false;
  if (vm.state === "paused") await runtime.resume(vm.id, options);
  log.warn({ error: getErrorMessage(cause) }, "push failed; the machine continues");
}

export async function remove({ runtime, log }: StepContext, vmId: string, options: Abortable): Promise<void> {
  try {
    await runtime.remove(vmId, { force: true, ...options });
    log.info({ id: vmId }, "VM removed");
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
  }
}

export async function drop(
  context: StepContext,
  { digest, record }: { readonly digest: string; readonly record: Vm | undefined },
  options: Abortable,
): Promise<void> {
  const machine = readPodMachine(context.tracked.writer.pod);
  const restoredFrom = record ? getRestoredFrom(record, machine) : "";
  const { namespace } = machine;
  const proof = { digest, namespace, restoredFrom, ...(record ? { vmId: record.id } : {}) };
  const outcome = await requireSnapshots(context).inRegistry.drop(machine.vm.vmName, proof, options);
  if (outcome === "dropped") context.log.info({ digest }, "snapshot dropped after the wake");
}

/** Its Sandbox ended: what the policy asks for stays as `latest`, everything else goes. */
export async function settle(context: StepContext, options: Abortable): Promise<void> {
  const { tracked } = context;
  const { vm, namespace, snapshotOnDelete } = readPodMachine(tracked.writer.pod);
  const keep = snapshotOnDelete || tracked.ending === "forceDeleted";
  const settlement = { namespace, keep, purge: !keep, at: new Date() };
  await requireSnapshots(context).inRegistry.settle(vm.vmName, settlement, options);
  tracked.snapshotsSettled = true;
}

/** The last copy of a machine that is about to end is renamed, never dropped. */
export async function release(context: StepContext, digest: string, options: Abortable): Promise<void> {
  const { vm, namespace } = readPodMachine(context.tracked.writer.pod);
  const request = { at: new Date(), namespace, digest };
  const released = await requireSnapshots(context).inRegistry.release(vm.vmName, request, options);
  if (!released) return;
  context.log.info({ digest, tag: released.tag }, "snapshot released");
  if (!context.tracked.ending)
    context.emit({
      type: "Warning",
      reason: "SnapshotSetAside",
      message: `the pod asks for another image than ${digest} was made from: it boots, and the snapshot is kept as ${released.tag}`,
    });
}

/** A snapshot that the running VM does not come from is the only copy of another state of this machine: it is kept. */
export function reportSnapshot(
  { emit, log, tracked, metrics }: StepContext,
  { digest, record }: { readonly digest: string; readonly record: Vm | undefined },
): void {
  const message = `tag hibernate names ${digest}, but the running VM was not restored from it; the snapshot is kept. Release it, or restore it with cocoonctl snapshot restore`;
  emit({ type: "Warning", reason: "ForeignSnapshotKept", message });
  log.warn({ digest }, "hibernated snapshot under a running machine kept");
  metrics.foreign_snapshot_total.inc();
  tracked.reported = record?.id ?? "";
  if (!tracked.ending) tracked.finished = record?.id ?? "";
}

/** The wake is complete: nothing of the hibernation stays on the pod or on the node. */
export async function clearDigest(
  context: StepContext,
  record: Vm | undefined,
  options: Abortable,
): Promise<void> {
  const { tracked, runtime } = context;
  const { vmName } = readPodMachine(tracked.writer.pod).vm;
  await dropLocalSnapshot(runtime, vmName, options);
  await tracked.writer.recordDigest(null, options);
  tracked.finished = record?.id ?? "";
}
