/** Does what the plan says: one step, one effect. Each may be repeated. */
import { Fault, isFault, messageOf, type Abortable } from "@cocoon/core";
import { readMachine } from "../machine.ts";
import { bringUp } from "./bring-up.ts";
import { dropLocal } from "./local-snapshot.ts";
import { findVm } from "./observe.ts";
import type { Step } from "./plan.ts";
import { listAsleep } from "./snapshot-list.ts";
import { requireSnapshots, type StepContext } from "./step-context.ts";

type Doing<K extends Step["kind"]> = Extract<Step, { kind: K }>;

export async function applyStep(context: StepContext, step: Step, options: Abortable): Promise<void> {
  const { writer } = context;
  switch (step.kind) {
    case "settled":
    case "adoptStatic":
      return;
    case "refuse":
      return refuse(context, step);
    case "announce":
      return announce(context, step, options);
    case "record":
      return writer.recordDigest(step.digest, options);
    case "clearId":
      return writer.clearVm(options);
    case "dropLocal":
      return dropLocal(context, nameOf(context), options);
    case "save":
    case "push":
    case "seal":
    case "remove":
      return applySleepStep(context, step, options);
    case "resume":
      await context.runtime.resume(step.vmId, options);
      return;
    case "start":
      await context.runtime.start(step.vmId, options);
      return;
    default:
      return bringUp(context, step, options);
  }
}

async function announce(
  context: StepContext,
  { state }: Doing<"announce">,
  options: Abortable,
): Promise<void> {
  const { writer } = context;
  if (state === "hibernated") await listAsleep(context, readMachine(writer.pod).recordedDigest, options);
  await writer.announce({ state }, options);
}

function refuse({ tell }: StepContext, { reason, message, waits }: Doing<"refuse">): never {
  tell({ type: "Warning", reason, message });
  throw new Fault(waits ? "unavailable" : "preconditionFailed", message);
}

function nameOf({ writer }: StepContext): string {
  return readMachine(writer.pod).vm.vmName;
}

type SleepStep = Doing<"save" | "push" | "seal" | "remove">;

async function applySleepStep(context: StepContext, step: SleepStep, options: Abortable): Promise<void> {
  const { metrics } = context;
  const phase = step.kind === "save" ? "snapshot" : step.kind;
  try {
    await doSleepStep(context, step, options);
    metrics.hibernate.inc({ phase, result: "ok" });
  } catch (error) {
    metrics.hibernate.inc({ phase, result: "failed" });
    const reason = { save: "Snapshot", push: "Push", seal: "Push", remove: "Remove" }[step.kind];
    context.tell({ type: "Warning", reason: `Hibernate${reason}Failed`, message: messageOf(error) });
    if (step.kind === "push" && !options.signal.aborted) await goOn(context, error, options);
    throw error;
  }
}

async function doSleepStep(context: StepContext, step: SleepStep, options: Abortable): Promise<void> {
  const name = nameOf(context);
  switch (step.kind) {
    case "save":
      return saveFrozen(context, step.vmId, options);
    case "push": {
      const baseImage = readMachine(context.writer.pod).vm.image;
      await requireSnapshots(context).push({
        vmName: name,
        snapshot: name,
        tag: "hibernate",
        baseImage,
        ...options,
      });
      return;
    }
    case "seal":
      return requireSnapshots(context).seal(name, step.digest, options);
    case "remove":
      return removeVm(context, step.vmId, options);
  }
}

/**
 * What is saved is exactly where the VM stands: nothing it does afterwards can be lost. An engine that cannot leave a
 * VM frozen lets it go on until it is removed; what it does in these seconds is lost, as it always was with that engine.
 */
async function saveFrozen(context: StepContext, vmId: string, options: Abortable): Promise<void> {
  const { metrics, runtime, freezes, saved } = context;
  const took = metrics.saveSeconds.startTimer();
  try {
    const report = await runtime.snapshots.save(vmId, {
      name: nameOf(context),
      ...(freezes ? { resume: false } : {}),
      ...options,
    });
    saved.id = report.snapshot.id;
    metrics.save.inc({ result: "ok" });
    took();
  } catch (error) {
    metrics.save.inc({ result: "failed" });
    throw error;
  }
}

/** The push failed: the machine is not kept frozen until the registry is back. The next attempt saves anew. */
export async function goOn(context: StepContext, cause: unknown, options: Abortable): Promise<void> {
  const name = nameOf(context);
  const vm = await findVm(context.runtime, name, options);
  if (!vm) return;
  await dropLocal(context, name, options);
  context.saved.id = undefined;
  if (vm.state === "paused") await context.runtime.resume(vm.id, options);
  context.log.warn({ vm: name, error: messageOf(cause) }, "push failed; the machine goes on");
}

async function removeVm(context: StepContext, vmId: string, options: Abortable): Promise<void> {
  try {
    await context.runtime.remove(vmId, { force: true, ...options });
  } catch (error) {
    if (!isFault(error, "notFound")) throw error;
  }
}
