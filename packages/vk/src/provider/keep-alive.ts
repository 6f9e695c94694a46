/** Keeps machines alive whose containers ask for it: a livenessProbe that fails too often resets the VM in place. */
import { messageOf } from "@cocoon/core";
import { keyText } from "@cocoon/kube";
import type { Vm } from "@cocoon/vm";
import { livenessCheck, watchLiveness } from "../probes/liveness.ts";
import type { ProviderParts } from "./provider.ts";
import type { Seat } from "./seat.ts";
import type { StepContext } from "./step-context.ts";

export interface KeepAliveParts extends ProviderParts {
  readonly contextOf: (seat: Seat) => StepContext;
  readonly lookAgain: (vmName: string) => void;
}

/** Watches until the signal aborts; a container without probe is left alone. */
export function keepAlive(parts: KeepAliveParts, seat: Seat, watched: { vm: Vm; signal: AbortSignal }): void {
  const { vm, signal } = watched;
  const { pod } = seat.writer;
  for (const container of pod.spec.containers) {
    const probe = container.livenessProbe;
    if (!probe) continue;
    const { tell } = parts.contextOf(seat);
    const warn = (message: string) => tell({ type: "Warning", reason: "Unhealthy", message });
    const check = livenessCheck({ runtime: parts.runtime, vmId: vm.id, container }, probe);
    if (typeof check === "string") {
      warn(check);
      continue;
    }
    void watchLiveness({
      probe,
      check,
      signal,
      secondMs: parts.settings.livenessSecondMs,
      onFailure: (message) => warn(`Liveness probe failed: ${message}`),
      onDead: () => reset(parts, seat, { vm, container: container.name }),
    });
  }
}

async function reset(
  parts: KeepAliveParts,
  seat: Seat,
  dead: { readonly vm: Vm; readonly container: string },
): Promise<void> {
  const { runtime, signal, log } = parts;
  const { vm, container } = dead;
  if (seat.writer.pod.spec.restartPolicy === "Never") return;
  const message = `Container ${container} failed liveness probe, the machine is reset in place`;
  parts.contextOf(seat).tell({ type: "Normal", reason: "Killing", message });
  try {
    await seat.exclusively(async () => {
      if (seat.ended || seat.probed !== `${vm.id} ${vm.epoch}`) return;
      await runtime.reset(vm.id, { signal });
      seat.restarts += 1;
      seat.stopProbing();
    });
  } catch (error) {
    log.warn({ pod: keyText(seat.key), error: messageOf(error) }, "machine not reset");
    seat.stopProbing();
  }
  parts.lookAgain(vm.name);
}
