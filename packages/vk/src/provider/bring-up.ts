/** Makes a VM the way the plan chose. Each may be repeated: a name that is taken is found by the next observation. */
import { annotation } from "@cocoon/contract";
import { Fault, getErrorMessage, type Abortable } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { compareSize, readWantedSize } from "../machine-size.ts";
import { readPodMachine, type PodMachine } from "../pod-machine.ts";
import { bootImage, isSnapshotImage } from "./boot-image.ts";
import { cloneFromDirectory, cloneSnapshot, fork, restore } from "./clone-machine.ts";
import { noteSandboxNode } from "./sandbox-holder.ts";
import { prepareGuest } from "./prepare-guest.ts";
import type { StepContext } from "./step-context.ts";
import type { StepOf } from "./step.ts";

export type BringUp = StepOf<"restore" | "cloneFromDir" | "fork" | "run" | "clone" | "decideMode">;

export async function bringUp(context: StepContext, step: BringUp, options: Abortable): Promise<void> {
  const { metrics, tracked } = context;
  const machine = readPodMachine(tracked.writer.pod);
  const stopTimer = metrics.vm_boot_duration_seconds.startTimer({
    mode: step.kind,
    backend: machine.vm.backend,
  });
  const isWake = step.kind === "restore";
  try {
    assertSystem(context, step, machine);
    if (machine.ofSandbox)
      await noteSandboxNode({ client: context.client, pod: tracked.writer.pod, node: context.node }, options);
    const vm = await makeVm(context, { step, machine }, options);
    const seconds = stopTimer();
    tracked.madeVm = vm.id;
    logCreated(context, { step, vm, seconds });
    warnSize(context, vm);
    void prepareGuest(context, { vm, cloned: vm.origin.kind !== "image", woken: isWake }, context);
    if (isWake) metrics.wake_total.inc({ result: "ok" });
  } catch (error) {
    if (isWake) metrics.wake_total.inc({ result: "failed" });
    const reason = isWake ? "WakeCloneFailed" : "CreateBringUpFailed";
    context.emit({ type: "Warning", reason, message: getErrorMessage(error) });
    throw error;
  }
}

/** A wake is published here; the end of it, `ready`, by the readiness steps. */
function logCreated(
  { log, node, emit }: StepContext,
  { step, vm, seconds }: { readonly step: BringUp; readonly vm: Vm; readonly seconds: number },
): void {
  if (step.kind !== "restore") return log.info({ id: vm.id, from: step.kind }, "machine created");
  const { digest } = step.snapshot;
  log.info({ id: vm.id, digest, node }, "machine woken");
  emit({
    type: "Normal",
    reason: "Woken",
    message: `restored from ${digest} on node ${node} in ${seconds.toFixed(1)} s`,
  });
}

/** The pod's condition repeats it as long as it is so. */
function warnSize({ tracked, description, emit }: StepContext, vm: Vm): void {
  const message = compareSize(readWantedSize(tracked.writer.pod, description), vm.config);
  if (message !== undefined) emit({ type: "Warning", reason: "SnapshotSizeKept", message });
}

/** macOS guests need a program of their own, and boot from an image only: they have no memory snapshot. */
function assertSystem({ description }: StepContext, step: BringUp, machine: PodMachine): void {
  if (!machine.isMacos) return;
  if (!description.can.macos)
    throw new Fault(
      "preconditionFailed",
      `${annotation.os} is macos, and this node has no cocoon-macos: install it where VK_COCOON_MACOS_BIN says and restart vk-cocoon, or run the pod on a node that has it`,
    );
  if (bootsImage(step)) return;
  throw new Fault("notSupported", `a macOS guest boots from an image; it cannot ${step.kind}`);
}

function bootsImage({ kind }: BringUp): boolean {
  return kind === "run" || kind === "clone" || kind === "decideMode";
}

interface Making {
  readonly step: BringUp;
  readonly machine: PodMachine;
}

async function makeVm(context: StepContext, { step, machine }: Making, options: Abortable): Promise<Vm> {
  if (machine.isMacos) return bootImage(context, machine, options);
  switch (step.kind) {
    case "restore":
      return restore(context, { snapshot: step.snapshot, machine }, options);
    case "cloneFromDir":
      return cloneFromDirectory(context, { directory: step.directory, machine }, options);
    case "fork":
      return fork(context, { source: step.source, machine }, options);
    case "run":
      return bootImage(context, machine, options);
    case "clone":
      return cloneSnapshot(context, machine, options);
    default:
      return (await isSnapshotImage(context, machine, options))
        ? cloneSnapshot(context, machine, options)
        : bootImage(context, machine, options);
  }
}
