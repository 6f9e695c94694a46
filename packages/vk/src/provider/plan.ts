/**
 * The next step with one machine. Pure: the observed state goes in, one step comes out; after it was applied, everything is
 * observed again. A process that dies anywhere continues where the observed state says.
 *
 *   desired   VM        steps
 *   asleep    runs      announce -> (drop the old local snapshot) -> save, VM stays paused        plan-hibernate.ts
 *             paused    push -> record digest -> clear id -> remove VM
 *             stopped   start, unless what was pushed is where it stopped: continue as if paused
 *             none      record -> clear id -> seal -> announce hibernated
 *   running   paused    drop the local snapshot -> resume                                         plan-wake.ts
 *             stopped   start, unless what was pushed is where it stopped: remove VM
 *             runs      probe -> publish -> drop the snapshot it was restored from -> settled
 *             none      record -> claim -> restore what is hibernated, else boot fresh
 *   gone      any       asleep first where the pod was disrupted or hibernated;                   plan-delete.ts
 *                       else save -> push latest -> drop or release `hibernate` -> remove VM
 */
import type { PodMachine } from "../pod-machine.ts";
import type { Observed } from "./observed.ts";
import { planGone } from "./plan-delete.ts";
import { planAsleep } from "./plan-hibernate.ts";
import { planRunning } from "./plan-wake.ts";
import { settled, type Step } from "./step.ts";

export function planMachine(observed: Observed): Step {
  const { machine, desired } = observed;
  if (!machine.vm.managed) return planStatic(machine, desired);
  const foreign = findForeignOwner(observed);
  if (foreign) return foreign;
  if (observed.canTakeOver) return { kind: "takeOver" };
  const plans = { running: planRunning, asleep: planAsleep, gone: planGone };
  return plans[desired](observed);
}

/** A machine that another system runs: it is shown, never touched. */
function planStatic(machine: PodMachine, desired: Observed["desired"]): Step {
  if (desired === "gone") return settled;
  if (machine.runtime.vmId !== "" && machine.runtime.ip !== "") return { kind: "showStatic" };
  const message = `unmanaged vm ${machine.vm.vmName} missing pre-assigned IP/VMID`;
  return { kind: "refuse", reason: "StaticVmIncomplete", message };
}

/** VM names are not escaped, so two namespaces can reach one name. Nothing of another namespace is adopted or removed. */
function findForeignOwner({ machine, vm, desired }: Observed): Step | undefined {
  if (!vm || vm.namespace === "" || vm.namespace === machine.namespace) return undefined;
  if (desired === "gone") return settled;
  return {
    kind: "refuse",
    reason: "VMOwnedByOther",
    message: `VM ${machine.vm.vmName} on this node belongs to namespace ${vm.namespace}, not to ${machine.namespace}; choose another name`,
  };
}
