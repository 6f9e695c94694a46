/**
 * What a provider of pods must offer; the rest of the kubelet is ours. A provider that leaves an optional method out
 * has its route answered with 501.
 *
 * Faults: `notFound` says that the pod or container is not there for sure; anything else means that it could not be
 * found out, and the call is tried again.
 */
import type { Duplex, Readable } from "node:stream";
import type { KubeObject, ObjectKey } from "@cocoon/kube";
import type { CommandIo } from "./stream/index.ts";
import type { StatsSummary } from "./api/stats-summary.ts";

/** A pod as far as this layer looks into it; providers see the whole object. */
export interface Pod extends KubeObject {
  readonly spec: PodSpec;
  readonly status?: PodStatus;
}

export interface PodSpec {
  readonly nodeName?: string;
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly restartPolicy?: "Always" | "OnFailure" | "Never";
  readonly serviceAccountName?: string;
  readonly terminationGracePeriodSeconds?: number;
  readonly activeDeadlineSeconds?: number;
  readonly enableServiceLinks?: boolean;
  readonly tolerations?: readonly unknown[];
  readonly ephemeralContainers?: readonly unknown[];
}

export interface Container {
  readonly name: string;
  readonly image?: string;
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly envFrom?: readonly unknown[];
  readonly ports?: readonly {
    readonly containerPort: number;
    readonly name?: string;
    readonly protocol?: string;
  }[];
  readonly resources?: ResourceRequirements;
  readonly livenessProbe?: ContainerProbe;
}

/** A check of a container, as the pod spells it; times are in seconds. */
export interface ContainerProbe {
  readonly exec?: { readonly command?: readonly string[] };
  readonly tcpSocket?: { readonly port: number | string };
  readonly httpGet?: {
    readonly path?: string;
    readonly port: number | string;
    readonly scheme?: "HTTP" | "HTTPS";
    readonly httpHeaders?: readonly { readonly name: string; readonly value: string }[];
  };
  readonly grpc?: unknown;
  readonly initialDelaySeconds?: number;
  readonly periodSeconds?: number;
  readonly timeoutSeconds?: number;
  readonly failureThreshold?: number;
}

export interface ResourceRequirements {
  readonly requests?: Readonly<Record<string, string>>;
  readonly limits?: Readonly<Record<string, string>>;
}

export interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: unknown;
}

export interface PodStatus {
  readonly phase?: "Pending" | "Running" | "Succeeded" | "Failed" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
  readonly hostIP?: string;
  readonly hostIPs?: readonly { readonly ip: string }[];
  readonly podIP?: string;
  readonly podIPs?: readonly { readonly ip: string }[];
  readonly startTime?: string;
  readonly conditions?: readonly PodCondition[];
  readonly containerStatuses?: readonly ContainerStatus[];
  readonly initContainerStatuses?: readonly ContainerStatus[];
  readonly qosClass?: string;
  readonly observedGeneration?: number;
}

/** What a provider has to say of a pod. */
export interface PodReport {
  readonly status: PodStatus;
  /** Annotations that change in the same write; null removes one. */
  readonly annotations?: Readonly<Record<string, string | null>>;
}

/** Resolves when this report, or a newer one, is at the API server, or when nobody is left to read it. */
export type ReportPod = (key: ObjectKey, uid: string, report: PodReport) => Promise<void>;

export interface PodCondition {
  readonly type: string;
  readonly status: "True" | "False" | "Unknown";
  readonly reason?: string;
  readonly message?: string;
  readonly lastProbeTime?: string | null;
  readonly lastTransitionTime?: string;
  readonly observedGeneration?: number;
}

export interface ContainerStatus {
  readonly name: string;
  readonly image: string;
  readonly imageID: string;
  readonly ready: boolean;
  readonly started?: boolean;
  readonly restartCount: number;
  readonly containerID?: string;
  readonly state?: ContainerState;
  readonly lastState?: ContainerState;
}

export interface ContainerState {
  readonly waiting?: { readonly reason?: string; readonly message?: string };
  readonly running?: { readonly startedAt?: string };
  readonly terminated?: {
    readonly exitCode: number;
    readonly reason?: string;
    readonly message?: string;
    readonly startedAt?: string;
    readonly finishedAt?: string;
  };
}

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

export interface PodProvider {
  /** The provider does not know the pod yet; its environment is resolved. May be called again after a failure. */
  createPod(pod: Pod, options: ProviderOptions): Promise<void>;
  /** The provider knows the pod, and a field that matters to it changed. */
  updatePod(pod: Pod, options: ProviderOptions): Promise<void>;
  /** Resolves when everything of the pod is gone or safe. May be called again; unknown pods are fine. */
  deletePod(pod: Pod, options: ProviderOptions): Promise<void>;
  /**
   * What the provider knows; never asks the API server. A provider that writes to the pod itself gives the
   * resourceVersion of its last write, so that it is not handed an older pod.
   */
  getPod(key: ObjectKey): Promise<Pod | undefined>;
  getPods(): Promise<readonly Pod[]>;
  /** Called once, before any work: the provider reports each change of a pod's status through the callback. */
  onPodStatus(report: ReportPod): void;

  logs?(target: ContainerTarget, options: LogOptions): Promise<Readable>;
  /** Runs until the output is complete; returns the exit code. */
  exec?(target: ContainerTarget, command: readonly string[], io: CommandIo): Promise<number>;
  attach?(target: ContainerTarget, io: CommandIo): Promise<number>;
  /** One connection to a port of the pod. */
  portForward?(pod: ObjectKey, port: number, options: ProviderOptions): Promise<Duplex>;
  stats?(options: ProviderOptions): Promise<StatsSummary>;
}
