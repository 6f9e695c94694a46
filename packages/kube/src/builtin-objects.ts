/** Objects that every cluster has, as the API server's OpenAPI document describes them; read-only, since they come from caches. */
import type { Frozen } from "@cocoon/core/frozen";
import type * as admission from "kubernetes-types/admissionregistration/v1.d.ts";
import type * as extensions from "kubernetes-types/apiextensions/v1.d.ts";
import type * as apps from "kubernetes-types/apps/v1.d.ts";
import type * as coordination from "kubernetes-types/coordination/v1.d.ts";
import type * as core from "kubernetes-types/core/v1.d.ts";
import type * as eventsApi from "kubernetes-types/events/v1.d.ts";
import type * as networking from "kubernetes-types/networking/v1.d.ts";
import type * as scheduling from "kubernetes-types/scheduling/v1.d.ts";
import type { KubeObject } from "./object.ts";

/** The type of a kind: its metadata is always there, its version and kind need not be. */
type Wire<T> = KubeObject & Omit<Frozen<T>, "apiVersion" | "kind" | "metadata">;

export interface Condition {
  readonly type: string;
  readonly status: string;
  readonly reason?: string;
  readonly message?: string;
  readonly lastProbeTime?: string | null;
  readonly lastTransitionTime?: string;
  readonly observedGeneration?: number;
}
export type Toleration = Frozen<core.Toleration>;
export type Taint = Frozen<core.Taint>;
export type EnvVar = Frozen<core.EnvVar>;
export type ContainerProbe = Frozen<core.Probe>;
export type Container = Frozen<core.Container>;
export type PodSpec = Frozen<core.PodSpec>;
export type ContainerState = Frozen<core.ContainerState>;
export type ContainerStatus = Partial<Frozen<core.ContainerStatus>> & { readonly name: string };
export type PodStatus = Omit<Frozen<core.PodStatus>, "conditions" | "containerStatuses"> & {
  readonly containerStatuses?: readonly ContainerStatus[];
  readonly conditions?: readonly Condition[];
  readonly observedGeneration?: number;
};
export type Pod = KubeObject & { readonly spec?: PodSpec; readonly status?: PodStatus };
export type PodTemplate = Omit<Wire<core.PodTemplateSpec>, "metadata"> &
  Partial<Pick<KubeObject, "metadata">>;
export type Node = Omit<Wire<core.Node>, "status"> & {
  readonly status?: Omit<Frozen<core.NodeStatus>, "nodeInfo"> & {
    readonly nodeInfo?: Readonly<Record<string, unknown>>;
    readonly [field: string]: unknown;
  };
};
export type Namespace = Wire<core.Namespace>;
export type ConfigMap = Wire<core.ConfigMap>;
export type Secret = Wire<core.Secret>;
export type Service = Wire<core.Service>;
export type NetworkPolicy = Wire<networking.NetworkPolicy>;
export type Lease = Wire<coordination.Lease>;
/** `events.k8s.io/v1`: what `kubectl describe` prints. */
export type KubeEvent = KubeObject & Partial<Wire<eventsApi.Event>>;
export type Workload = Wire<apps.Deployment>;
export type PriorityClass = Wire<scheduling.PriorityClass>;
export type CoreEvent = Wire<core.Event>;
export type ObjectReference = Frozen<core.ObjectReference>;
export type Eviction = Wire<{ deleteOptions?: Record<string, unknown> }>;
export type WebhookConfiguration = Wire<admission.MutatingWebhookConfiguration>;
export type WebhookClientConfig = Frozen<admission.WebhookClientConfig>;
export type CustomResourceDefinition = Wire<extensions.CustomResourceDefinition>;
export type OpenObject = KubeObject & Readonly<Record<string, unknown>>;
