/** What a step works with. */
import { Fault, type Logger } from "@cocoon/core";
import type { ReportPod } from "@cocoon/kubelet";
import type { GuestLogin, RestoreMode, RuntimeDescription } from "@cocoon/vm";
import type { VkMetrics } from "../metrics.ts";
import type { NodeSnapshots } from "../node-snapshots.ts";
import type { Ping } from "../probes/checks.ts";
import type { DnsFacts } from "../pod-network.ts";
import type { ProbeTimes } from "../probes/probe.ts";
import type { Sources } from "./observe.ts";
import type { StatusFacts } from "./status.ts";
import type { TrackedMachine } from "./tracked-machine.ts";

/** Settings of the node that steps use. */
interface StepSettings {
  readonly status: StatusFacts;
  /** Directories below which `clone-from-dir` may point. */
  readonly cloneRoots: readonly string[];
  readonly login: GuestLogin;
  readonly probeTimes: ProbeTimes;
  readonly restartPauseMs: number;
  /** Milliseconds that a second of a livenessProbe has. */
  readonly livenessSecondMs: number;
  readonly restoreMode: RestoreMode;
  /** Which machines are listed in a ConfigMap of their namespace while they are hibernated. */
  readonly snapshotConfigMap: "legacy" | "all";
  /** Name servers of pods. */
  readonly dns: DnsFacts;
  /** What the engine is and can do. */
  readonly description: RuntimeDescription;
}

interface MachineEvent {
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

export interface StepContext extends Sources, StepSettings {
  /** Of the process: for what continues after the step. */
  readonly signal: AbortSignal;
  readonly tracked: TrackedMachine;
  readonly metrics: VkMetrics;
  /** With pod, set and VM as fields. */
  readonly log: Logger;
  readonly ping: Ping | undefined;
  readonly report: ReportPod;
  readonly emit: (event: MachineEvent) => void;
  /** Requests a reconcile of this machine. */
  readonly requeue: () => void;
}

export function requireSnapshots({ snapshots }: Pick<StepContext, "snapshots">): NodeSnapshots {
  if (!snapshots)
    throw new Fault("preconditionFailed", "no registry is configured; set OCI_REGISTRY or EPOCH_URL");
  return snapshots;
}
