/** Liveness probes of a machine's containers: one that fails too often resets the VM in place. */
import { getErrorMessage } from "@cocoon/core";
import type { Vm } from "@cocoon/vm";
import { livenessCheck, watchLiveness } from "../probes/liveness.ts";
import type { StepContext } from "./step-context.ts";
import { getVmIdentity } from "./tracked-machine.ts";

/** They run until the signal aborts; a container without a probe has none. */
export function startLivenessProbes(context: StepContext, vm: Vm, signal: AbortSignal): void {
  const { emit, runtime, tracked, livenessSecondMs } = context;
  for (const container of tracked.writer.pod.spec.containers) {
    const probe = container.livenessProbe;
    if (!probe) continue;
    const warn = (message: string) => emit({ type: "Warning", reason: "Unhealthy", message });
    const check = livenessCheck({ runtime, vmId: vm.id, container }, probe);
    if (typeof check === "string") {
      warn(check);
      continue;
    }
    void watchLiveness({
      probe,
      check,
      signal,
      secondMs: livenessSecondMs,
      onFailure: (message) => warn(`Liveness probe failed: ${message}`),
      onDead: () => reset(context, { vm, container: container.name }),
    });
  }
}

async function reset(
  context: StepContext,
  dead: { readonly vm: Vm; readonly container: string },
): Promise<void> {
  const { runtime, signal, log, tracked, emit, requeue } = context;
  const { vm, container } = dead;
  if (tracked.writer.pod.spec.restartPolicy === "Never") return;
  const message = `Container ${container} failed liveness probe, the machine is reset in place`;
  emit({ type: "Normal", reason: "Killing", message });
  try {
    await tracked.exclusively(async () => {
      if (tracked.ended || tracked.probe?.identity !== getVmIdentity(vm)) return;
      await runtime.reset(vm.id, { signal });
      tracked.restarts += 1;
      tracked.stopProbing();
    });
  } catch (error) {
    log.warn({ error: getErrorMessage(error) }, "machine not reset");
    tracked.stopProbing();
  }
  requeue();
}
