/** Makes a VM the way the plan chose. Each may be repeated: a name that is taken is found by the next observation. */
import { annotation } from "@cocoon/contract";
import { Fault, getErrorMessage, type Abortable } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { compareSize, readWantedSize } from "../machine-size.ts";
import { readPodMachine, type PodMachine } from "../pod-machine.ts";
import { bootImage, isSnapshotImage } from "./boot-image.ts";
import { cloneFromDirectory, cloneSnapshot, fork, restore } from "./clone-machine.ts";
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
    assertSystem(machine);
    const vm = await makeVm(context, { step, machine }, options);
    stopTimer();
    tracked.madeVm = vm.id;
    logCreated(context, { step, vm });
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
  { step, vm }: { readonly step: BringUp; readonly vm: Vm },
): void {
  if (step.kind !== "restore") return log.info({ id: vm.id, from: step.kind }, "machine created");
  const { digest } = step.snapshot;
  log.info({ id: vm.id, digest, node }, "machine woken");
  emit({ type: "Normal", reason: "Woken", message: `restored from ${digest}` });
}

/** The pod's condition repeats it as long as it is so. */
function warnSize({ tracked, description, emit }: StepContext, vm: Vm): void {
  const message = compareSize(readWantedSize(tracked.writer.pod, description), vm.config);
  if (message !== undefined) emit({ type: "Warning", reason: "SnapshotSizeKept", message });
}

/** macOS needs Apple's hardware and a program of its own, whose command line is not documented: it is not driven. */
function assertSystem({ vm }: PodMachine): void {
  if (vm.os.toLowerCase() !== "macos") return;
  throw new Fault(
    "preconditionFailed",
    `${annotation.os} is macos, which this kubelet does not run: the command line of the program that VK_COCOON_MACOS_BIN names is not documented, so it is not used. Run the pod on a node of the Go vk-cocoon, or choose another system`,
  );
}

interface Making {
  readonly step: BringUp;
  readonly machine: PodMachine;
}

async function makeVm(context: StepContext, { step, machine }: Making, options: Abortable): Promise<Vm> {
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
