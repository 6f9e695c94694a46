/** What a step works with. */
import { Fault, type Logger } from "@cocoon/core";
import type { GuestLogin, RestoreMode } from "@cocoon/vm";
import type { VkMetrics } from "../metrics.ts";
import type { PodWriter } from "../pod-writer.ts";
import type { Snapshots } from "../snapshots.ts";
import type { Sources } from "./observe.ts";

export interface StepContext extends Sources {
  /** Of the process: for what goes on after the step. */
  readonly signal: AbortSignal;
  readonly writer: PodWriter;
  readonly metrics: VkMetrics;
  readonly log: Logger;
  /** Directories below which `clone-from-dir` may point. */
  readonly cloneRoots: readonly string[];
  readonly login: GuestLogin;
  readonly restoreMode: RestoreMode;
  readonly snapshotConfigMap: "legacy" | "all";
  readonly macosBin: string;
  readonly tell: (event: {
    readonly type: "Normal" | "Warning";
    readonly reason: string;
    readonly message: string;
  }) => void;
}

export function requireSnapshots({ snapshots }: StepContext): Snapshots {
  if (!snapshots) throw new Fault("preconditionFailed", "no registry is configured");
  return snapshots;
}
