/** A machine that is not awake cannot be reached; people are told what to do instead. */
import { label } from "@cocoon/contract";
import { Fault } from "@cocoon/core";
import type { Pod } from "@cocoon/kube";
import { stateOfPod } from "../cluster/machine-rows.ts";
import { commandName } from "../invocation.ts";

export function assertAwake(pod: Pod): void {
  const { name = "", labels } = pod.metadata;
  const { state, message } = stateOfPod(pod);
  const set = labels?.[label.set];
  const why = message === "" ? "" : ` (${message})`;
  switch (state) {
    case "asleep":
    case "hibernating":
      throw new Fault(
        "conflict",
        `${name} ${state === "asleep" ? "sleeps" : "is going to sleep"}; wake it first: ${commandName()} wake ${name}${set ? `, or resume ${set} when the whole set is suspended` : ""}`,
      );
    case "pending":
    case "failed":
    case "terminating":
      throw new Fault(
        "conflict",
        `${name} is ${state}${why}; \`${commandName()} get ${name}\` and \`${commandName()} events ${name}\` tell more`,
      );
    default: // creating, waking, not ready, unknown: the guest may answer already
  }
}
