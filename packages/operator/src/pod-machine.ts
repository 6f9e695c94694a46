/** A machine as its pod shows it, with the pod: what both controllers observe. */
import { readMachine as readModel, type Machine as Model } from "@cocoon/machine";
import type { Pod } from "@cocoon/kube";

export interface Machine extends Model {
  readonly pod: Pod;
}

export function readMachine(pod: Pod): Machine {
  return { ...readModel(pod), pod };
}

/** When the pod became ready; 0 when the status does not say. */
export function readySince({ pod }: Machine): number {
  const ready = pod.status?.conditions?.find(({ type }) => type === "Ready");
  const at = Date.parse(ready?.lastTransitionTime ?? "");
  return Number.isNaN(at) ? 0 : at;
}

const livingStates: ReadonlySet<string> = new Set(["ready", "hibernating", "hibernated"]);

/** Nothing says that its machine was ever there: neither here nor in a copy. */
export function neverLived({ runtime, restoreMarked, recordedDigest, lifecycle, ready }: Machine): boolean {
  const traces = ready || runtime.vmId !== "" || restoreMarked || recordedDigest !== "";
  return !traces && !livingStates.has(lifecycle.state);
}

/** When its pod goes, a copy of it may be left: it is to sleep, its end was not requested, or it never was ready. */
export function mayLeaveSnapshot({ hibernate, disrupted, lifecycle }: Machine): boolean {
  return hibernate || disrupted || lifecycle.state !== "ready";
}
