/** A machine that is not awake cannot be reached; the error names what to do instead. */
import { label, readMachineState, readVmRuntime } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kube";
import { commandName } from "../invocation.ts";

export function assertAwake(pod: Pod): void {
  const { name = "", labels, annotations } = pod.metadata;
  const { state, message } = readMachineState(pod);
  const set = labels?.[label.set];
  const command = commandName();
  const why = message === "" ? "" : ` (${message})`;
  switch (state) {
    case "asleep":
    case "hibernating":
      throw new Fault(
        "conflict",
        `${name} ${state === "asleep" ? "sleeps" : "is going to sleep"}; wake it first: ${command} wake ${name}${set ? `, or ${command} resume ${set} when the whole set is suspended` : ""}`,
      );
    case "pending":
    case "failed":
    case "terminating":
      throw new Fault(
        "conflict",
        `${name} is ${state}${why}; \`${command} get ${name}\` and \`${command} events ${name}\` tell more`,
      );
    default: // creating, waking, not ready, unknown: once there is a machine, the guest may answer already
      if (readVmRuntime(annotations).vmId === "")
        throw new Fault(
          "conflict",
          `${name} is ${state}${why}, there is no machine to reach yet; \`${command} get ${name} -w\` shows when it is ready`,
        );
  }
}
