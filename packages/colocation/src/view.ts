/** What the rules know of the cluster. Reads come from caches and cost nothing; see `server/cluster-view.ts`. */
import type { PriorityClass } from "@cocoon/kube";
import type { ConfigMap, Node } from "@cocoon/kube";
import type { CompiledProfile } from "./profile-engine.ts";
import type { Texts } from "./json.ts";
import type { ElasticQuotaProfile, Reservation } from "./kinds.ts";
import type { Quota, QuotaTree } from "./quota/quota-tree.ts";

export interface PodSummary {
  readonly namespace: string;
  readonly name: string;
  readonly labels: Texts;
  readonly annotations: Texts;
}

type Eventually<T> = T | Promise<T>;

export interface ClusterView {
  profiles(): readonly CompiledProfile[];
  /** Empty when there is no such namespace; rejects when the lookup failed. */
  namespaceLabels(name: string): Eventually<Texts>;
  /** Reads the API server when the cache does not have it. */
  priorityClass(name: string): Eventually<PriorityClass | undefined>;
  quotas(): QuotaTree;
  /** Reads the API server when the cache does not have it. */
  quota(name: string): Eventually<Quota | undefined>;
  quotaProfiles(): Iterable<ElasticQuotaProfile>;
  configMap(namespace: string, name: string): ConfigMap | undefined;
  pod(namespace: string, name: string): Eventually<PodSummary | undefined>;
  podsWithQuotaLabel(quota: string): readonly PodSummary[];
  podsInNamespace(namespace: string): readonly PodSummary[];
  nodes(): Iterable<Node>;
  reservation(name: string): Eventually<Reservation | undefined>;
}
