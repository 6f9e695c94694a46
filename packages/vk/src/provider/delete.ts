/** Ends a machine whose pod goes away, step by step. */
import { latestTag } from "@cocoon/contract";
import { Fault, messageOf, type Abortable } from "@cocoon/core";
import { readMachine } from "../machine.ts";
import { observeMachine } from "./observe.ts";
import { isDisrupted, planDeletion, type DeletionStep, type SeenDeletion } from "./plan-delete.ts";
import type { StepContext } from "./step-context.ts";
import { applyStep, goOn } from "./steps.ts";

const maxSteps = 40;

export async function deleteMachine(
  context: StepContext,
  before: (vmName: string, step: string) => Promise<void>,
  options: Abortable,
): Promise<void> {
  const { metrics } = context;
  for (let count = 0; count < maxSteps; count += 1) {
    const seen = await observeDeletion(context, options);
    const step = planDeletion(seen);
    await before(seen.machine.vm.vmName, step.kind);
    if (step.kind === "settled") {
      metrics.lifecycle.inc({ op: "delete", result: "ok", reason: "" });
      return;
    }
    try {
      await applyDeletion(context, step, options);
    } catch (error) {
      metrics.lifecycle.inc({ op: "delete", result: "failed", reason: step.kind });
      throw error;
    }
  }
  throw new Fault("internal", `deletion did not end after ${maxSteps} steps`);
}

async function observeDeletion(context: StepContext, options: Abortable): Promise<SeenDeletion> {
  const { writer, snapshots } = context;
  const machine = readMachine(writer.pod);
  const disrupted = isDisrupted(writer.pod);
  const sleeps = disrupted || machine.sleep;
  const seen = await observeMachine(context, { ...machine, sleep: sleeps }, options);
  const asks = snapshots !== undefined && !sleeps && seen.vm !== undefined;
  const pushed =
    asks && seen.local ? await snapshots.named(machine.vm.vmName, latestTag, options) : undefined;
  const stale = asks ? await snapshots.sleeping(machine.vm.vmName, options) : undefined;
  return { ...seen, disrupted, stale, latestSnapshotId: pushed?.snapshotId };
}

async function applyDeletion(context: StepContext, step: DeletionStep, options: Abortable): Promise<void> {
  const { snapshots, writer } = context;
  const { vmName, image } = readMachine(writer.pod).vm;
  if (step.kind !== "pushLatest" && step.kind !== "dropTag") return applyStep(context, step, options);
  if (!snapshots) throw new Fault("internal", "no registry is configured");
  if (step.kind === "dropTag") return snapshots.drop(vmName, step.digest, options);
  try {
    await snapshots.push({ vmName, snapshot: vmName, tag: latestTag, baseImage: image, ...options });
  } catch (error) {
    const message = `the machine is kept until its snapshot can be pushed: ${messageOf(error)}`;
    context.tell({ type: "Warning", reason: "SnapshotPushFailed", message });
    if (!options.signal.aborted) await goOn(context, error, options);
    throw error;
  }
}
