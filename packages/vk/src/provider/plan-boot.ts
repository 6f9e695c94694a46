/** Boots a machine that does not exist yet, in the order of precedence; or starts its VM again. Pure. */
import { diedWhileWaking, reports } from "./machine-state.ts";
import type { Observed, ObservedVm } from "./observed.ts";
import type { Step } from "./step.ts";

/** When nothing runs and nothing is hibernated. A machine that is quick is published with its first write. */
export function planFresh({ machine }: Observed): Step {
  if (machine.lifecycle.state !== "" && !reports(machine, "creating"))
    return { kind: "announce", state: "creating" };
  if (machine.cloneFromDir !== "") {
    if (machine.mode === "run" || machine.vm.forkFrom !== "")
      return {
        kind: "refuse",
        reason: "CreateBringUpFailed",
        message: "clone-from-dir cannot be combined with mode run or fork-from; remove one of them",
      };
    return { kind: "cloneFromDir", directory: machine.cloneFromDir };
  }
  if (machine.vm.forkFrom !== "") return { kind: "fork", source: machine.vm.forkFrom };
  if (machine.mode === "run") return { kind: "run" };
  if (machine.mode === "clone" || machine.mode === "static") return { kind: "clone" };
  return { kind: "decideMode" };
}

/** A guest that powers off right after each start is not started for ever. Its VM and disk stay for the next pod. */
const maxStarts = 5;

export function planStart(observed: Observed, vm: ObservedVm): Step {
  const { starts, machine } = observed;
  if (starts.inRow < maxStarts)
    return { kind: diedWhileWaking(observed, vm) ? "wakeAgain" : "start", vmId: vm.id };
  const what = starts.failure === "" ? "did not stay up" : `cannot be started: ${starts.failure}`;
  return {
    kind: "refuse",
    reason: starts.failure === "" ? "RestartCooldown" : "RestartFailed",
    message: `VM ${machine.vm.vmName} ${what} after ${starts.inRow} starts in a row; it is kept as it is, and the next pod of the machine starts it again`,
  };
}
