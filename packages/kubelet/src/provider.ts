/**
 * What a provider of pods must offer; a missing optional method is answered with 501. `notFound` says that the pod or container
 * is not there for sure; any other fault means that it could not be found out, and the call is repeated.
 */
import type { Duplex, Readable } from "node:stream";
import type { ObjectKey, Pod as KubePod, PodSpec, PodStatus } from "@cocoon/kube";
import type { CommandIo } from "./stream/remote-command.ts";
import type { StatsSummary } from "./api/stats-summary.ts";

export interface Pod extends KubePod {
  readonly spec: PodSpec;
}

export interface PodReport {
  readonly status: PodStatus;
  readonly annotations?: Readonly<Record<string, string | null>>;
}

/** Resolves when this report, or a newer one, is at the API server, or when the pod is gone. */
export type ReportPod = (key: ObjectKey, uid: string, report: PodReport) => Promise<void>;

export interface ContainerTarget {
  readonly pod: ObjectKey;
  readonly container: string;
}

export interface LogOptions {
  /** Undefined: all. 0: none of the past. */
  readonly tailLines: number | undefined;
  readonly follow: boolean;
  readonly limitBytes: number | undefined;
  readonly previous: boolean;
  readonly since: Date | undefined;
  readonly timestamps: boolean;
  readonly signal: AbortSignal;
}

export interface ProviderOptions {
  readonly signal: AbortSignal;
}

/**
 * Why a pod is gone although no graceful deletion was seen.
 *
 * - `forceDeleted`: a client removed it at once while the node was in contact with the API server and not fenced.
 * - `unknown`: anything else: missing in a later list, storage restored, node fenced, pod GC. It may exist again, or elsewhere.
 */
export type DisappearanceCause = "forceDeleted" | "unknown";

export interface DisappearanceOptions extends ProviderOptions {
  readonly cause: DisappearanceCause;
}

export interface PodProvider {
  /** The provider does not know the pod yet; its environment is resolved. May be called again after a failure. */
  createPod(pod: Pod, options: ProviderOptions): Promise<void>;
  updatePod(pod: Pod, options: ProviderOptions): Promise<void>;
  /** Only for a pod whose deletion was requested. Resolves when everything of the pod is gone or safe; may be called again. */
  deletePod(pod: Pod, options: ProviderOptions): Promise<void>;
  /**
   * A pod is gone without a requested deletion; `pod` is its last seen state. With the cause `unknown` nothing may be destroyed.
   * Resolves when `getPod` no longer has it; may be called again after a failure.
   */
  podDisappeared(pod: Pod, options: DisappearanceOptions): Promise<void>;
  /** What the provider knows, without the API server; with the resourceVersion of the provider's own last write. */
  getPod(key: ObjectKey): Promise<Pod | undefined>;
  getPods(): Promise<readonly Pod[]>;
  /** Called once, before any work: the provider reports each change of a pod's status through the callback. */
  onPodStatus(report: ReportPod): void;

  logs?(target: ContainerTarget, options: LogOptions): Promise<Readable>;
  exec?(target: ContainerTarget, command: readonly string[], io: CommandIo): Promise<number>;
  attach?(target: ContainerTarget, io: CommandIo): Promise<number>;
  portForward?(pod: ObjectKey, port: number, options: ProviderOptions): Promise<Duplex>;
  stats?(options: ProviderOptions): Promise<StatsSummary>;
}
