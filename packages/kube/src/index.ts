/** kube: Kubernetes without product words: client, watch and cache; `/controller`, `/admission`, `/certificates`, `/scheduling`. */
export { openCaches, type CacheListener, type Caches, type ObjectCache } from "./cache/cache.ts";
export type { CacheIndex } from "./cache/cache-index.ts";
export type { CacheEvent } from "./cache/cache-store.ts";
export { includesVersion, isSameState } from "./object.ts";
export { findAccessRefusal, findTokenUser, type KubeUser } from "./client/access-review.ts";
export type { KubeClient, KubeConnection, RawRequest } from "./client/client.ts";
export { readApiEndpoint, type ApiEndpoint } from "./client/endpoint.ts";
export { kubeClientOptions, readKubeEnvironment } from "./client/config.ts";
export {
  getKey,
  keyText,
  resourceType,
  type KubeObject,
  type ObjectKey,
  type OwnerReference,
  type ResourceType,
} from "./object.ts";
export { isReplaced } from "./client/errors.ts";
export { openKubeClient } from "./client/open-client.ts";
export type {
  Condition,
  ConfigMap,
  Container,
  ContainerProbe,
  ContainerState,
  ContainerStatus,
  CustomResourceDefinition,
  EnvVar,
  Eviction,
  KubeEvent,
  Lease,
  Node,
  OpenObject,
  Pod,
  PodSpec,
  PodStatus,
  PodTemplate,
  PriorityClass,
  Namespace,
  NetworkPolicy,
  Service,
  Taint,
  Toleration,
  WebhookConfiguration,
  Workload,
} from "./builtin-objects.ts";
export {
  configMaps,
  customResourceDefinitions,
  deployments,
  events,
  leases,
  mutatingWebhookConfigurations,
  namespaces,
  nodes,
  pods,
  replicaSets,
  secrets,
  serviceAccounts,
  networkPolicies,
  services,
  statefulSets,
  validatingWebhookConfigurations,
} from "./builtin.ts";
export { watch } from "./cache/watch.ts";
export type { ListMethod } from "./cache/watch-options.ts";
