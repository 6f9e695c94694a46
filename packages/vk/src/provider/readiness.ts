/** What a pod's status shows of its machine: started probes, published results, hibernated and failed machines. */
import { annotation } from "@cocoon/contract";
import { getErrorMessage, isFault, orAborted, type Abortable } from "@cocoon/core";
import type { PodReport } from "@cocoon/kubelet";
import type { Vm } from "@cocoon/vm";
import { compareSize, readWantedSize } from "../machine-size.ts";
import { readPodMachine } from "../pod-machine.ts";
import { checkMachine, type CheckResult } from "../probes/checks.ts";
import { probe } from "../probes/probe.ts";
import { startLivenessProbes } from "./liveness-restarts.ts";
import { prepareGuest } from "./prepare-guest.ts";
import { showLoading } from "./show-loading.ts";
import { buildStatus, type Shown } from "./status.ts";
import type { StepContext } from "./step-context.ts";
import { getVmIdentity } from "./tracked-machine.ts";

/** Probes the VM until it is another one. A result that changes requests a reconcile, which publishes it. */
export function startProbe(context: StepContext, vm: Vm): void {
  const { tracked, probeTimes, requeue } = context;
  if (tracked.shown === undefined && tracked.madeVm !== vm.id) adopt(context, vm);
  tracked.stopProbing();
  const stop = new AbortController();
  const state = {
    identity: getVmIdentity(vm),
    stop,
    result: undefined as CheckResult | undefined,
    published: undefined,
    livenessStarted: false,
  };
  tracked.probe = state;
  const signal = AbortSignal.any([stop.signal, context.signal]);
  if (vm.loading) void showLoading(context, vm.id, { signal });
  void probe({
    times: probeTimes,
    signal,
    check: (options) => check(context, vm.id, options),
    onChange: (result) => {
      state.result = result;
      requeue();
      return Promise.resolve();
    },
  });
}

/** A VM that an earlier process made; what that process did not finish is continued. */
function adopt(context: StepContext, vm: Vm): void {
  const { log, tracked, signal } = context;
  log.info({ id: vm.id }, "machine adopted");
  const { pod } = tracked.writer;
  if (pod.metadata.annotations?.[annotation.postCloneState] === "running") {
    reportResumed(context, "postclone");
    void prepareGuest(context, { vm, cloned: true }, { signal });
  } else if (readPodMachine(pod).lifecycle.state === "creating") reportResumed(context, "ready");
}

/** An earlier process began it, and this one continues. */
export function reportResumed({ metrics, emit }: StepContext, op: "hibernate" | "postclone" | "ready"): void {
  metrics.startup_resume_total.inc({ op });
  const message = `vk-cocoon was restarted and continues: ${op}`;
  emit({ type: "Normal", reason: "ResumedAfterRestart", message });
}

async function check(context: StepContext, vmId: string, options: Abortable): Promise<CheckResult> {
  const { runtime, ping, metrics, tracked } = context;
  const stopTimer = metrics.probe_duration_seconds.startTimer();
  try {
    const [vm, address] = await Promise.all([runtime.inspect(vmId, options), runtime.address(vmId, options)]);
    const { probePort } = readPodMachine(tracked.writer.pod);
    if (vm.state !== "running") return { ok: false, message: `vm ${vm.state}` };
    return await checkMachine({ runtime, vm, address, probePort, ping }, options);
  } catch (error) {
    if (isFault(error, "notFound")) return { ok: false, message: "vm gone" };
    if (!options.signal.aborted) metrics.vm_inspect_transient_fail_total.inc();
    throw error;
  } finally {
    stopTimer();
  }
}

/** Status and annotations in one write: a client that sees `ready` on the pod sees its status as well. */
export async function publishReadiness(context: StepContext, vm: Vm, { signal }: Abortable): Promise<void> {
  const { tracked, runtime, log, description } = context;
  const { writer, restarts } = tracked;
  const state = tracked.probe;
  const result = state?.result;
  if (!state || !result) return;
  const ip = (await runtime.address(vm.id, { signal }))?.ip ?? "";
  const startedAt = (vm.startedAt ?? vm.createdAt).replace(/\.\d+Z$/, "Z");
  const { ok: ready, message } = result;
  const machine = readPodMachine(writer.pod);
  const isNew = machine.lifecycle.state === "";
  const changes = writer.changesOf({
    ...writer.vmTexts({ vmId: vm.id, ip }),
    // With `ready`, or the operator would drop the snapshot of a machine whose content is still on its way.
    ...(vm.loading ? { [annotation.loading]: "true" } : {}),
    ...(ready || isNew ? writer.lifecycleTexts({ state: ready ? "ready" : "creating" }) : {}),
  });
  const size = compareSize(readWantedSize(writer.pod, description), vm.config);
  const shown = { kind: "live" as const, ip, startedAt, restarts, vmId: vm.id, ready, message, size };
  await orAborted(show(context, shown, changes), { signal });
  writer.took(changes);
  state.published = result;
  if (!ready) return;
  // What the report did not carry, such as a newer generation, is written here.
  await writer.announce({ state: "ready", more: writer.vmTexts({ vmId: vm.id, ip }) }, { signal });
  if (machine.lifecycle.state !== "ready") log.info({ id: vm.id, ip }, "machine ready");
  startLiveness(context, vm);
}

/**
 * Once, from the moment the machine has been ready. A guest that waits for its memory to arrive does not answer, and a reset
 * would lose that memory: such a machine is watched when all of it is here.
 */
export function startLiveness(context: StepContext, vm: Vm): void {
  const state = context.tracked.probe;
  if (!state || state.livenessStarted || vm.loading) return;
  state.livenessStarted = true;
  startLivenessProbes(context, vm, AbortSignal.any([state.stop.signal, context.signal]));
}

export async function showAsleep(context: StepContext, { signal }: Abortable): Promise<void> {
  context.tracked.stopProbing();
  await orAborted(show(context, { kind: "asleep" }), { signal });
}

/** A pod that terminates is not ready from now on; its phase stays, because an ended pod may end its owner. */
export function showHibernating(context: StepContext): void {
  context.tracked.stopProbing();
  show(context, { kind: "hibernating" }).catch((error: unknown) => {
    context.log.warn({ error: getErrorMessage(error) }, "hibernation not published");
  });
}

export function showEnded(
  context: StepContext,
  { reason, message }: { readonly reason: string; readonly message: string },
): void {
  const { tracked, log, metrics } = context;
  tracked.stopProbing();
  log.warn({ reason }, "machine failed");
  show(context, { kind: "ended", reason, message }).catch((error: unknown) => {
    metrics.pod_evict_failure_total.inc();
    log.warn({ error: getErrorMessage(error) }, "failure of the machine not published");
  });
}

/** A machine of another system cannot be probed: it counts as ready. */
export async function showStatic(context: StepContext, { signal }: Abortable): Promise<void> {
  const { writer } = context.tracked;
  const { ip } = readPodMachine(writer.pod).runtime;
  const startedAt = writer.pod.metadata.creationTimestamp ?? "";
  const shown = { kind: "live" as const, ip, ready: true, message: "static machine", startedAt, restarts: 0 };
  await orAborted(show(context, { ...shown, vmId: "", size: undefined }), { signal });
  await writer.announce({ state: "ready" }, { signal });
}

function show(
  { tracked, report, status: facts }: StepContext,
  shown: Shown,
  annotations: PodReport["annotations"] = {},
): Promise<void> {
  tracked.shown = shown;
  const status = buildStatus(tracked.writer.pod, shown, facts);
  return report(tracked.key, tracked.uid, { status, annotations });
}
