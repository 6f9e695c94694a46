/** The kinds that these webhooks read and that no cluster has by itself, and a few builtin ones. */
import type { LabelSelector } from "@cocoon/core/label-selector";
import { resourceType, type KubeObject, type PriorityClass } from "@cocoon/kube";

type Texts = Readonly<Record<string, string>>;
type Quantities = Readonly<Record<string, string | number>>;

export interface ClusterColocationProfile extends KubeObject {
  readonly spec?: {
    readonly namespaceSelector?: LabelSelector;
    readonly selector?: LabelSelector;
    readonly probability?: string | number;
    readonly labels?: Texts;
    readonly annotations?: Texts;
    readonly labelKeysMapping?: Texts;
    readonly annotationKeysMapping?: Texts;
    readonly labelSuffixes?: Texts;
    readonly schedulerName?: string;
    readonly qosClass?: string;
    readonly priorityClassName?: string;
    readonly koordinatorPriority?: number;
    readonly patch?: Readonly<Record<string, unknown>>;
  };
}

export interface ElasticQuota extends KubeObject {
  readonly spec?: { readonly min?: Quantities; readonly max?: Quantities };
  readonly status?: { readonly used?: Quantities };
}

export interface ElasticQuotaProfile extends KubeObject {
  readonly spec?: {
    readonly quotaName?: string;
    readonly quotaLabels?: Texts;
    readonly resourceRatio?: string;
    readonly nodeSelector?: LabelSelector;
  };
}

export interface Reservation extends KubeObject {
  readonly spec?: { readonly template?: Readonly<Record<string, unknown>> };
  readonly status?: {
    readonly phase?: string;
    readonly allocatable?: Quantities;
    readonly allocated?: Quantities;
  };
}

export const profiles = resourceType<ClusterColocationProfile>({
  group: "config.koordinator.sh",
  version: "v1alpha1",
  kind: "ClusterColocationProfile",
  namespaced: false,
});

export const priorityClasses = resourceType<PriorityClass>({
  group: "scheduling.k8s.io",
  version: "v1",
  kind: "PriorityClass",
  plural: "priorityclasses",
  namespaced: false,
});

export const elasticQuotas = resourceType<ElasticQuota>({
  group: "scheduling.sigs.k8s.io",
  version: "v1alpha1",
  kind: "ElasticQuota",
});

export const elasticQuotaProfiles = resourceType<ElasticQuotaProfile>({
  group: "quota.koordinator.sh",
  version: "v1alpha1",
  kind: "ElasticQuotaProfile",
});

export const reservations = resourceType<Reservation>({
  group: "scheduling.koordinator.sh",
  version: "v1alpha1",
  kind: "Reservation",
  namespaced: false,
});
