/** The one word for where a machine stands, as its pod shows it, and why it is not at rest. */
import { readText, type Annotations } from "./annotations.ts";
import { annotation } from "./keys.ts";
import { lifecycleStates, readHibernate, readLifecycle, readRestoreFromHibernate } from "./lifecycle.ts";
import { isPodReady, type PodLike } from "./pod-state.ts";

const machineStates = [
  "ready",
  "not ready",
  "pending",
  "creating",
  "hibernating",
  "asleep",
  "waking",
  "failed",
  "terminating",
  "unknown",
] as const;
export type MachineState = (typeof machineStates)[number];

interface StatePod {
  readonly metadata: PodLike["metadata"] & { readonly deletionTimestamp?: string | undefined };
  readonly spec?: (PodLike["spec"] & { readonly nodeName?: string | undefined }) | undefined;
  readonly status?:
    | {
        readonly phase?: string | undefined;
        readonly message?: string | undefined;
        readonly conditions?:
          | readonly {
              readonly type: string;
              readonly status: string;
              readonly message?: string | undefined;
            }[]
          | undefined;
      }
    | undefined;
}

export interface MachineFinding {
  readonly state: MachineState;
  readonly message: string;
}

export function readMachineState(pod: StatePod): MachineFinding {
  const { annotations } = pod.metadata;
  const { state, message } = readLifecycle(annotations);
  if (pod.metadata.deletionTimestamp) return { state: "terminating", message };
  if (state === "failed" || pod.status?.phase === "Failed")
    return {
      state: "failed",
      message: message || podMessage(pod) || "no reason was given; `events` may tell",
    };
  switch (state) {
    case "hibernated":
      return readHibernate(annotations) ? { state: "asleep", message: "" } : { state: "waking", message };
    case "hibernating":
      return { state: "hibernating", message };
    case "creating":
      return { state: isRestored(annotations) ? "waking" : "creating", message };
    case "ready":
      return readHibernate(annotations) ? { state: "hibernating", message } : readiness(pod);
    default:
      return unreported(pod);
  }
}

/** Not made anew, but from where it slept. */
function isRestored(annotations: Annotations): boolean {
  return readRestoreFromHibernate(annotations) || readText(annotations, annotation.snapshotDigest) !== "";
}

function readiness(pod: StatePod): MachineFinding {
  return isPodReady(pod) ? { state: "ready", message: "" } : { state: "not ready", message: podMessage(pod) };
}

/** Nothing was reported, or a word of another version. */
function unreported(pod: StatePod): MachineFinding {
  const reported = readText(pod.metadata.annotations, annotation.lifecycleState);
  if (reported !== "")
    return {
      state: "unknown",
      message: `its kubelet reports "${reported.slice(0, 60)}", which this version does not know (it knows ${lifecycleStates.join(", ")}); use a cocoonctl as new as the nodes`,
    };
  if (!pod.spec?.nodeName) return { state: "pending", message: podMessage(pod) || "it waits for a node" };
  return {
    state: "pending",
    message: `node ${pod.spec.nodeName} has not reported about it yet; is its kubelet up?`,
  };
}

/** What the pod's own conditions say, if anything. */
function podMessage({ status }: StatePod): string {
  if (status?.message) return status.message;
  const problem = ["PodScheduled", "Ready"]
    .map((type) => status?.conditions?.find((each) => each.type === type && each.status !== "True"))
    .find((condition) => condition?.message);
  return problem?.message ?? "";
}
